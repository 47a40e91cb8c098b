/**
 * What the fuzzing thread tells without being asked: which input it is running. The other thread looks
 * when it hears nothing for long, or when the thread is gone.
 */
export interface Progress {
  /** Before a run. */
  begin(target: number, input: Uint8Array): void;
  /** After it. */
  end(): void;
  /** Runs begun so far, and the one that has not ended. */
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
