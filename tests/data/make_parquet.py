#!/usr/bin/env python3
"""Writes the Parquet files of tests/data/fixtures. Made with pyarrow 26.0.

    python3 tests/data/make_parquet.py
"""
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).resolve().parent / "fixtures"


def write(name, columns, **options):
    pq.write_table(pa.table(columns), OUT / f"{name}.parquet", **options)


def main():
    good = {
        "x": pa.array([0.5, -1.5, 2.5, 3.0, 4.0], pa.float32()),
        "wide": pa.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15]], pa.list_(pa.float32(), 3)),
        "small": pa.array([-1, 2, 3, 4, 127], pa.int8()),
        "u16": pa.array([1, 2, 3, 4, 65535], pa.uint16()),
        "flag": pa.array([True, False, True, True, False]),
        "label": pa.array([0, 1, 2, 1, 0], pa.int64()),
        "tags": pa.array([[5, 6], [], [7, 8, 9], [1], [2, 3]], pa.list_(pa.int64())),
    }
    write("plain", good, row_group_size=2, compression="snappy")
    write("zstd", good, compression="zstd", data_page_version="2.0")
    write("null", {"x": pa.array([1.0, None, 3.0])})
    write("null_in_list", {"t": pa.array([[1], [2, None]], pa.list_(pa.int64()))})
    write("text", {"x": pa.array([1.0, 2.0]), "name": pa.array(["a", "b"])})
    write("ragged_floats", {"t": pa.array([[1.0], [2.0, 3.0]], pa.list_(pa.float32()))})


if __name__ == "__main__":
    main()
