/*
 * A lane under asynchronous execution, for Spin: what scheduler/scheduler.cc grants, what
 * memory/lane.cc says to wait for, what runtime/engine_loop.cc enqueues, and two streams that
 * execute it at any pace. docs/scheduling.md says what is proven, tests/formal/lane_test.py does it.
 *
 * Sizes are small numbers. A launch is the number job * SUBS + sub-model. Launches of a stream
 * complete in order, so an event has a place instead of a name: to wait for it is to wait until so
 * many launches of the other stream are complete.
 *
 * To be set with -D: JOBS; SUBS, the sub-models of a step; SIZE of the lane; ANY_PROFILE, all sound
 * profiles instead of those in FixedProfiles(); RANKS that the policy tells apart (1: first in,
 * first out; JOBS: any policy); DROPS, how many steps users drop; WHO, the job whose progress the
 * LTL formula is about; and one broken rule: NO_TEST, HELD_AFTER, GREEDY, ONE_END_WAITS,
 * DEPARTED_IGNORED, UNRECORDED_PASSES, UNRECORDED_BLOCKS, ELSEWHERE_STARTS, NO_AGEING.
 */
#ifndef JOBS
#define JOBS 2
#endif
#ifndef SUBS
#define SUBS 3
#endif
#ifndef SIZE
#define SIZE 5
#endif
#ifndef RANKS
#define RANKS JOBS
#endif
#ifndef DROPS
#define DROPS 0
#endif
#define RUN_AHEAD 2 /* JobParams::max_in_flight: launched, unfinished sub-models a job */
#define BACKLOG 3   /* kStartBacklog */
#define AGE 2       /* kAgeAfter; 32 in the scheduler */
#define DEPTH 4     /* launches that can be outstanding on an end, given RUN_AHEAD and BACKLOG */

#define NONE 255
#define COMING 254 /* a wait for the launch that is enqueued next; broken rules only */
#define NEVER 253  /* a wait for a later launch of the same stream */
#define OTHER(e) (1 - (e))
#define JOB(launch) ((launch) / SUBS)
#define SUB(launch) ((launch) % SUBS)

/* --- profiles --------------------------------------------------------------------------------- */
byte U[JOBS * SUBS];    /* extent while a sub-model runs */
byte H[JOBS * SUBS];    /* what its step holds afterwards */
byte Need[JOBS * SUBS]; /* N: the most of U from this sub-model to the end of the step */

/* --- what the scheduler knows ----------------------------------------------------------------- */
bool ready[JOBS];     /* a step waits to start */
bool in_step[JOBS];   /* a step is in flight: started, not enqueued to its end */
byte next[JOBS];      /* its next sub-model */
byte in_flight[JOBS]; /* launches not known to be complete */
bool last_end[JOBS];
byte overtaken[JOBS];
byte rank[JOBS];  /* what the policy makes of a step that is ready */
byte queue[JOBS]; /* jobs that are ready, in that order */
byte waiting;     /* how many */

byte at[2];       /* whose step is on the end */
bool leader;      /* of two */
bool granted = 1; /* the end that was granted last */
byte held[2];     /* by the step on the end, after its newest launch */

/* --- the launches that the scheduler does not know to be complete, the oldest first ----------- */
typedef Launches {
  byte count;
  byte done; /* the first of them are complete: the device knows, the scheduler does not yet */
  byte launch[DEPTH];
  byte waits[DEPTH]; /* completions of the other stream still to come before it may start */
  bool recorded;     /* the event of the newest one */
};
Launches out[2];
bool progress;   /* wakes the engine: something is complete, ready or dropped */
byte drops = DROPS;

/* --- what is really in use, for the assertions only ------------------------------------------- */
bool executing[2];
byte alive[2]; /* what the step on the end still has in memory between two launches */
byte gone[2];  /* bit k: launch out[].launch[k] is the last of a step that was dropped */
#define RUNS(e) out[e].launch[out[e].done]
#define IN_USE(e) (executing[e] -> U[RUNS(e)] : 0)

hidden byte i, c, head, other_head;
hidden byte found, starts, decided_end, decided, wait;

/* --- the rules -------------------------------------------------------------------------------- */
#define HAS_ROOM(j) (in_flight[j] < RUN_AHEAD)
#define LEADS(e) (at[OTHER(e)] == NONE || leader == (e))
#define NEXT_OF(j) ((j) * SUBS + next[j])
#ifdef ELSEWHERE_STARTS
#define COULD_START(e, j) HAS_ROOM(j)
#else
#define COULD_START(e, j) (HAS_ROOM(j) && !(in_flight[j] > 0 && last_end[j] != (e)))
#endif

#ifdef NO_TEST
#define GRANTED(e, j) true
#elif defined(HELD_AFTER)
#define GRANTED(e, j) (LEADS(e) || H[NEXT_OF(j)] + Need[NEXT_OF(at[OTHER(e)])] <= SIZE)
#elif defined(GREEDY)
#define GRANTED(e, j) (U[NEXT_OF(j)] + held[OTHER(e)] <= SIZE)
#else
#define GRANTED(e, j) (LEADS(e) || U[NEXT_OF(j)] + Need[NEXT_OF(at[OTHER(e)])] <= SIZE)
#endif

/* For `a` that became ready after `b`. */
#ifdef NO_AGEING
#define AGED(j) false
#else
#define AGED(j) (overtaken[j] >= AGE)
#endif
#define STARTS_BEFORE(a, b) (!AGED(b) && (AGED(a) || rank[a] < rank[b]))

/* The head of the waiting queue for an end; NONE when nobody could launch there. */
inline Head(e, result) {
  result = NONE;
  i = 0;
  do
  :: i < waiting ->
    c = queue[i];
    if
    :: COULD_START(e, c) && (result == NONE || STARTS_BEFORE(c, result)) -> result = c
    :: else
    fi;
    i++
  :: else -> break
  od
}

/* Sets `found`, and then what is decided. */
inline TryEnd(e) {
  if
  :: at[e] != NONE ->
    head = at[e];
    found = HAS_ROOM(head) && GRANTED(e, head);
    starts = false
  :: at[e] == NONE && out[e].count < BACKLOG ->
    Head(e, head);
    starts = true;
    if
    :: head == NONE
    :: head != NONE && at[OTHER(e)] == NONE -> /* on the end that it prefers */
      Head(OTHER(e), other_head);
      found = other_head == NONE || out[e].count < out[OTHER(e)].count ||
              (out[e].count == out[OTHER(e)].count && last_end[head] == e);
      leader = (found -> e : leader)
    :: head != NONE && at[OTHER(e)] != NONE ->
      leader = OTHER(e);
      found = GRANTED(e, head)
    fi
  :: else
  fi;
  if
  :: found ->
    decided_end = e;
    decided = NEXT_OF(head)
  :: else
  fi
}

inline Start(e, j) {
  i = 0;
  c = 0;
  do
  :: i < waiting ->
    if
    :: queue[i] != j ->
      queue[c] = queue[i];
#ifndef NO_AGEING
      overtaken[queue[c]] = overtaken[queue[c]] + (COULD_START(e, queue[c]) -> 1 : 0);
      assert(overtaken[queue[c]] < AGE + JOBS);
#endif
      c++
    :: else
    fi;
    i++
  :: else -> break
  od;
  waiting--;
  queue[waiting] = 0;
  ready[j] = false;
  overtaken[j] = 0;
  rank[j] = 0;
  in_step[j] = true;
  at[e] = j
}

inline Depart(e) {
  in_step[at[e]] = false;
  next[at[e]] = 0;
  at[e] = NONE;
  leader = OTHER(e)
}

/* The wait of the decided launch: for the newest launch on the other end, not known to be complete,
   that conflicts. Sets `wait`; it is over when that launch has been completed already. */
inline WaitRule(e) {
  wait = 0;
  i = out[OTHER(e)].count;
  do
  :: i > 0 ->
    i--;
    if
    :: U[out[OTHER(e)].launch[i]] + U[decided] > SIZE ->
      assert(i + 1 < out[OTHER(e)].count || out[OTHER(e)].recorded);
      wait = (i + 1 > out[OTHER(e)].done -> i + 1 - out[OTHER(e)].done : 0);
#ifdef ONE_END_WAITS
      wait = (e == 1 -> wait : 0);
#endif
#ifdef DEPARTED_IGNORED
      c = out[OTHER(e)].launch[i];
      wait = (at[OTHER(e)] == JOB(c) && SUB(c) < next[JOB(c)] -> wait : 0);
#endif
#ifdef UNRECORDED_PASSES
      wait = 0; /* a device that takes an event without work for a complete one */
#endif
#ifdef UNRECORDED_BLOCKS
      wait = COMING;
#endif
      break
    :: else
    fi
  :: else -> break
  od
}

#ifdef UNRECORDED_BLOCKS
/* The launch that somebody waits for is here. */
inline Came(e) {
  i = 0;
  do
  :: i < DEPTH ->
    if
    :: i < out[e].count && out[e].waits[i] == COMING -> out[e].waits[i] = NEVER
    :: else
    fi;
    if
    :: i < out[OTHER(e)].count && out[OTHER(e)].waits[i] == COMING ->
      out[OTHER(e)].waits[i] = out[e].count + 1 - out[e].done
    :: else
    fi;
    i++
  :: else -> break
  od
}
#else
#define Came(e) skip
#endif

inline Enqueue(e, j) {
#if !defined(NO_TEST) && !defined(HELD_AFTER)
  assert(U[decided] + held[OTHER(e)] <= SIZE); /* LaneState::Fits */
#endif
  WaitRule(e);
  Came(e);
  assert(out[e].count < DEPTH);
  out[e].launch[out[e].count] = decided;
  out[e].waits[out[e].count] = wait;
  out[e].recorded = false;
  out[e].count++;
  held[e] = H[decided];
  in_flight[j]++;
  last_end[j] = e;
  next[j]++;
  granted = e;
  if
  :: next[j] == SUBS -> Depart(e)
  :: else
  fi
}

/* Scheduler::Next(), the other end than last time first; and of what is enqueued for it, the wait
   and the launch. */
inline Next() {
  found = false;
  TryEnd(OTHER(granted));
  if
  :: !found -> TryEnd(granted)
  :: else
  fi;
  if
  :: found ->
    if
    :: starts -> Start(decided_end, JOB(decided))
    :: else
    fi;
    Enqueue(decided_end, JOB(decided))
  :: else
  fi
}
#define DISPATCHING (!out[0].recorded || !out[1].recorded)

/* What is complete on an end becomes known. */
inline Harvest(e) {
  i = 0;
  do
  :: i < DEPTH ->
    if
    :: i < out[e].done -> in_flight[JOB(out[e].launch[i])]--
    :: else
    fi;
    if
    :: i + out[e].done < out[e].count ->
      out[e].launch[i] = out[e].launch[i + out[e].done];
      out[e].waits[i] = out[e].waits[i + out[e].done]
    :: else ->
      out[e].launch[i] = 0;
      out[e].waits[i] = 0
    fi;
    i++
  :: else -> break
  od;
  gone[e] = gone[e] >> out[e].done;
  out[e].count = out[e].count - out[e].done;
  out[e].done = 0
}

/* EngineLoop::Run(): one thread that enqueues in one order and never waits for a launch. Streams
   may do anything between its steps; a launch may run before its event is recorded. */
proctype Engine() {
  do
  :: d_step { progress -> progress = false; Harvest(0) };
    d_step { Harvest(1); Next() };
    do
    :: d_step {
        DISPATCHING ->
        out[0].recorded = true;
        out[1].recorded = true;
        Next()
      }
    :: else -> break
    od
  od
}

/* A stream executes in order, at any pace. A launch that is over before its event has been recorded
   is taken for one that takes longer: nobody can tell. */
proctype Stream(bool e) {
  do
  :: atomic {
      out[e].done < out[e].count && out[e].waits[out[e].done] == 0 ->
      executing[e] = true;
      assert(IN_USE(0) + IN_USE(1) <= SIZE);       /* no two launches overlap */
      assert(IN_USE(e) + alive[OTHER(e)] <= SIZE); /* nor a launch and the other step's data */
      /* and the launches of a job come one after the other */
      assert(!(executing[0] && executing[1] && JOB(RUNS(0)) == JOB(RUNS(1))))
    };
    d_step {
      out[e].done + 1 < out[e].count || out[e].recorded ->
      executing[e] = false;
      alive[e] = ((gone[e] >> out[e].done) & 1 -> 0 : H[RUNS(e)]);
      out[e].done++;
      i = out[OTHER(e)].done;
      do
      :: i < out[OTHER(e)].count ->
        if
        :: out[OTHER(e)].waits[i] > 0 && out[OTHER(e)].waits[i] < NEVER -> out[OTHER(e)].waits[i]--
        :: else
        fi;
        i++
      :: else -> break
      od;
      progress = true
    }
  od
}

inline DropStep(e) {
  drops--;
  if
  :: out[e].done == out[e].count -> alive[e] = 0
  :: else -> gone[e] = gone[e] | (1 << (out[e].count - 1))
  fi;
  held[e] = 0;
  Depart(e);
  progress = true
}

/* A job without end: its next batch is there at some time, and its user may drop a step. */
proctype Job(byte j) {
  do
  :: atomic {
      !ready[j] && !in_step[j] ->
      ready[j] = true;
      queue[waiting] = j;
      waiting++;
      progress = true;
      do
      :: rank[j] + 1 < RANKS -> rank[j]++
      :: break
      od
    }
#if DROPS > 0
  :: d_step { drops > 0 && !DISPATCHING && at[0] == j -> DropStep(0) }
  :: d_step { drops > 0 && !DISPATCHING && at[1] == j -> DropStep(1) }
#endif
  od
}

/* --- set-up ----------------------------------------------------------------------------------- */

/* Any sound profile: extents cover what is held, nothing is held at the end. */
inline AnyProfile() {
  j = 0;
  do
  :: j < JOBS * SUBS ->
    U[j] = 1;
    do
    :: U[j] < SIZE -> U[j]++
    :: SUB(j) == 0 || U[j] >= H[(SUB(j) == 0 -> 0 : j - 1)] -> break
    od;
    do
    :: H[j] < U[j] && SUB(j) < SUBS - 1 -> H[j]++
    :: break
    od;
    j++
  :: else -> break
  od;
  /* Jobs have no names: of two that are swapped, one will do. */
  c = 0;
  do
  :: c < SUBS && U[c] == U[SUBS + c] && H[c] == H[SUBS + c] -> c++
  :: else -> break
  od;
  if
  :: c == SUBS || U[c] < U[SUBS + c] || (U[c] == U[SUBS + c] && H[c] < H[SUBS + c])
  :: else -> end_twin: false
  fi
}

#define SET(l, u, h) \
  U[l] = u;          \
  H[l] = h

inline FixedProfiles() {
  SET(0, 2, 2);
  SET(1, 4, 2);
  SET(2, 2, 0);
  SET(3, 3, 2);
  SET(4, 4, 1);
  SET(5, 1, 0);
#if JOBS > 2
  SET(6, 1, 1);
  SET(7, 5, 1);
  SET(8, 2, 0);
#endif
}

init {
  byte j;
  atomic {
    at[0] = NONE;
    at[1] = NONE;
    out[0].recorded = true;
    out[1].recorded = true;
#ifdef ANY_PROFILE
    AnyProfile();
#else
    FixedProfiles();
#endif
    j = JOBS * SUBS;
    do
    :: j > 0 ->
      j--;
      Need[j] = U[j];
      if
      :: SUB(j) == SUBS - 1
      :: SUB(j) < SUBS - 1 -> Need[j] = (Need[j + 1] > Need[j] -> Need[j + 1] : Need[j])
      fi
    :: else -> break
    od;
    run Engine();
    run Stream(0);
    run Stream(1);
    do
    :: j < JOBS ->
      run Job(j);
      j++
    :: else -> break
    od;
    j = 0
  }
}

#ifdef WHO
/* Under weak fairness: the job starts, and enqueues to its end, one step after the other. Since it
   has at most RUN_AHEAD launches outstanding, these are executed too. */
ltl progress_of_job { []<> in_step[WHO] && []<> !in_step[WHO] }
#endif
