import { type Profiler as Protocol, Session } from 'node:inspector';

/**
 * V8's own block coverage: it needs no instrumented build, and its positions are those of the running code.
 */
export interface Profiler {
  /** The code that has run since the last call. */
  take(): Snapshot;
}

/** The combined coverage of several runs. */
export interface Coverage {
  /** Whether a snapshot covers anything that no earlier one did. */
  isNew(snapshot: Snapshot): boolean;
  add(snapshot: Snapshot): void;
  /** Blocks that have run, and all blocks that V8 has reported so far. */
  readonly blocks: { readonly covered: number; readonly known: number };
}

export type Snapshot = readonly {
  readonly key: string;
  readonly ranges: readonly Protocol.CoverageRange[];
}[];

/** The state of one function: a flag for each character of its source, and where its blocks begin. */
interface FunctionCoverage {
  readonly start: number;
  readonly ran: Uint8Array;
  readonly blocks: Set<number>;
  /** Characters that have not run yet; most functions soon have none left and are skipped. */
  missing: number;
}

/** @param isUnderTest whether the script at a URL counts. */
export function createProfiler(isUnderTest: (url: string) => boolean): Profiler {
  const session = new Session();
  session.connect();
  post(session, 'Profiler.enable');
  post(session, 'Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  return {
    take() {
      const { result } = post(session, 'Profiler.takePreciseCoverage');
      const snapshot: { key: string; ranges: Protocol.CoverageRange[] }[] = [];
      for (const { url, scriptId, functions } of result) {
        if (!isUnderTest(url)) continue;
        for (const { ranges } of functions) {
          const [whole] = ranges;
          if (whole === undefined || whole.count === 0) continue;
          snapshot.push({ key: `${scriptId}:${whole.startOffset}:${whole.endOffset}`, ranges });
        }
      }
      return snapshot;
    },
  };
}

export function createCoverage(): Coverage {
  const functions = new Map<string, FunctionCoverage>();

  /** Calls `visit` for each character that runs in a snapshot for the first time. */
  const visitNew = (snapshot: Snapshot, visit: (known: FunctionCoverage, at: number) => boolean): boolean => {
    for (const { key, ranges } of snapshot) {
      const known = functions.get(key) ?? register(functions, key, ranges[0] as Protocol.CoverageRange);
      if (known.missing === 0) continue;
      const ran = paint(known, ranges);
      for (let i = 0; i < ran.length; i++) {
        if (ran[i] === 1 && known.ran[i] === 0 && visit(known, i)) return true;
      }
    }
    return false;
  };

  return {
    isNew: (snapshot) => visitNew(snapshot, () => true),

    add(snapshot) {
      visitNew(snapshot, (known, at) => {
        known.ran[at] = 1;
        known.missing--;
        return false;
      });
      for (const { key, ranges } of snapshot) {
        const known = functions.get(key);
        for (const { startOffset } of ranges) known?.blocks.add(startOffset - known.start);
      }
    },

    get blocks() {
      let covered = 0;
      let known = 0;
      for (const { blocks, ran } of functions.values()) {
        known += blocks.size;
        for (const at of blocks) covered += ran[at] ?? 0;
      }
      return { covered, known };
    },
  };
}

function register(
  functions: Map<string, FunctionCoverage>,
  key: string,
  { startOffset, endOffset }: Protocol.CoverageRange,
): FunctionCoverage {
  const length = endOffset - startOffset;
  const known = {
    start: startOffset,
    ran: new Uint8Array(length),
    blocks: new Set<number>(),
    missing: length,
  };
  functions.set(key, known);
  return known;
}

/** Inner ranges come after the outer ones and are more precise. */
function paint({ start, ran }: FunctionCoverage, ranges: readonly Protocol.CoverageRange[]): Uint8Array {
  const painted = new Uint8Array(ran.length);
  for (const { startOffset, endOffset, count } of ranges) {
    painted.fill(count > 0 ? 1 : 0, startOffset - start, endOffset - start);
  }
  return painted;
}

/** In-process inspector sessions answer before the call returns. */
function post(
  session: Session,
  method: 'Profiler.takePreciseCoverage',
): Protocol.TakePreciseCoverageReturnType;
function post(session: Session, method: string, params?: object): unknown;
function post(session: Session, method: string, params?: object): unknown {
  let answer: unknown;
  session.post(method, params, (error, result) => {
    if (error !== null) throw new Error(`${method}: ${error.message}`);
    answer = result;
  });
  return answer;
}
