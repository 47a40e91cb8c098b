/**
 * Shared memory in which the fuzzing thread shows its current input. The watching thread reads it after a
 * long silence, or when the fuzzing thread is gone.
 */
export interface Progress {
  /** Called before a run. */
  begin(target: number, input: Uint8Array): void;
  /** Called after a run. */
  end(): void;
  /** The number of runs started, and the run that has not ended. */
  look(): { readonly count: number; readonly running: { target: number; input: Uint8Array } | undefined };
}

const HEADER_LENGTH = 16;
const MAX_INPUT = 64 * 1024;
const [COUNT, TARGET, LENGTH, RUNNING] = [0, 1, 2, 3];

export function createMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(HEADER_LENGTH + MAX_INPUT);
}

export function progressIn(memory: SharedArrayBuffer): Progress {
  const header = new Int32Array(memory, 0, 4);
  const bytes = new Uint8Array(memory, HEADER_LENGTH);
  return {
    begin(target, input) {
      bytes.set(input);
      header[LENGTH] = input.length;
      header[TARGET] = target;
      Atomics.store(header, RUNNING, 1);
      Atomics.add(header, COUNT, 1);
    },
    end() {
      Atomics.store(header, RUNNING, 0);
    },
    look() {
      const count = Atomics.load(header, COUNT);
      if (Atomics.load(header, RUNNING) === 0) return { count, running: undefined };
      return { count, running: { target: header[TARGET] as number, input: bytes.slice(0, header[LENGTH]) } };
    },
  };
}
