#!/usr/bin/env python3
"""Feeds a job of ebbd from Python: `Feeder` pushes what a function of the batch's number makes, and goes
on from where it was after a broken connection. As a program: pushes the arrays of an .npz in order.

    feed_client.py unix:/run/user/1000/ebb/ebbd.sock JOB FILE.npz [EPOCHS]

Needs numpy and grpcio, and what grpcio-tools makes of the .proto files:

    python3 -m grpc_tools.protoc -I proto --python_out=stubs --grpc_python_out=stubs \\
        proto/ebb/v1/job.proto proto/ebb/v1/predict.proto proto/ebb/v1/service.proto
    PYTHONPATH=stubs python3 examples/feed_client.py ...
"""
import os
import queue
import socket
import sys
import time

import grpc
import numpy as np

from ebb.v1 import service_pb2, service_pb2_grpc

DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "bool"}
MESSAGE_BYTES = 16 << 20  # rows of a large batch go in several messages


def messages_of(number, batch, compare=False):
    """The messages of one batch: a dict of arrays with the same number of rows. `compare`: the daemon has it
    and is to say whether it is the same."""
    rows = len(next(iter(batch.values())))
    at_once = max(1, MESSAGE_BYTES * rows // max(1, sum(a.nbytes for a in batch.values())))
    for first in range(0, rows, at_once):
        part = service_pb2.FeedRequest.Batch(number=number, more=first + at_once < rows, compare=compare)
        for name, array in batch.items():
            piece = np.ascontiguousarray(array[first:first + at_once])
            little = piece.astype(piece.dtype.newbyteorder("<"), copy=False)
            part.fields.add(name=name, dtype=DTYPES[piece.dtype.name], shape=piece.shape,
                            data=little.tobytes())
        yield service_pb2.FeedRequest(batch=part)


class Feeder:
    def __init__(self, address, job, patience=30, name="feed_client.py", take_over=False, compare=True):
        self.address = address
        self.stub = service_pb2_grpc.EbbStub(grpc.insecure_channel(address))
        self.patience = patience  # seconds in which a daemon that cannot be reached is tried again
        self.compare = compare  # the last batch that the job has must be what is made for it
        self.header = service_pb2.FeedRequest.Header(
            job=job, take_over=take_over,  # from another client that is connected
            client=f"{name} (pid {os.getpid()} on {socket.gethostname()})")

    def feed(self, make):
        """Pushes make(number, rows), the batch of that step or None where the data end, a dict of arrays
        of so many rows, of which the job's fields are sent. The last position."""
        give_up, told = time.time() + self.patience, False
        while True:
            try:
                return self._connect(make)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.time() >= give_up:
                    raise
                if not told:
                    print(f"no ebbd answers at {self.address}; trying again for {self.patience} s", file=sys.stderr)
                told = True
                time.sleep(0.2)

    def _connect(self, make):
        first = queue.Queue()  # what the daemon says when the feed begins
        wrong = []

        def requests():
            yield service_pb2.FeedRequest(header=self.header)
            begun = first.get()
            number = begun.next_batch if begun else 0
            if begun:
                self.header.take_over = False  # once it was asked for
            if number and self.compare and begun.state == service_pb2.Job.STATE_UNSPECIFIED:
                batch = make(number - 1, begun.batch_rows)
                if batch is None:
                    wrong.append(f"{begun.job} has {number} batches already, and these data end before the last")
                    call.cancel()
                    return
                yield from messages_of(number - 1, {name: batch[name] for name in begun.schema}, compare=True)
            while begun:
                batch = make(number, begun.batch_rows)
                if batch is None:
                    yield service_pb2.FeedRequest(end=service_pb2.FeedRequest.End(batches=number))
                    return
                yield from messages_of(number, {name: batch[name] for name in begun.schema})
                number += 1  # gRPC asks for more when the daemon has room

        call = self.stub.Feed(requests())
        position = None
        try:
            for position in call:
                if position.taken_by:
                    raise RuntimeError(f"{position.job}: another client has taken the feed: {position.taken_by}")
                first.put(position)
                if position.state == service_pb2.Job.STATE_SUCCEEDED:  # it wants no more
                    break
        except grpc.RpcError:
            if wrong:
                raise ValueError(wrong[0]) from None
            raise
        finally:
            call.cancel()
            first.put(None)
        return position


def main():
    address, job, path = sys.argv[1:4]
    epochs = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    arrays = dict(np.load(path))
    length = len(next(iter(arrays.values())))

    def make(number, rows):
        batches = length // rows
        if number >= batches * epochs:
            return None
        begin = number % batches * rows
        return {name: array[begin:begin + rows] for name, array in arrays.items()}

    last = Feeder(address, job, name=f"feed_client.py {os.path.basename(path)}").feed(make)
    print(f"{last.job}: {last.next_batch} batches are in, step {last.step} is done")


if __name__ == "__main__":
    main()
