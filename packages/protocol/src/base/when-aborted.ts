interface Listening {
  readonly calls: Set<() => void>;
  readonly onAbort: () => void;
}

const listening = new WeakMap<AbortSignal, Listening>();

/**
 * Calls a function once `signal` aborts. A signal that many calls share has one listener for all of them: Node warns of a leak at the
 * eleventh, in words that send people looking for one.
 *
 * @param call must not throw.
 * @returns a function that ends it, and does nothing a second time.
 */
export function whenAborted(signal: AbortSignal | undefined, call: () => void): () => void {
  if (signal === undefined) return () => {};
  const { calls, onAbort } = listening.get(signal) ?? listenTo(signal);
  const own = () => call();
  calls.add(own);
  return () => {
    if (!calls.delete(own) || calls.size > 0) return;
    signal.removeEventListener('abort', onAbort);
    listening.delete(signal);
  };
}

function listenTo(signal: AbortSignal): Listening {
  const calls = new Set<() => void>();
  const onAbort = () => {
    listening.delete(signal);
    for (const call of calls) call();
  };
  const begun = { calls, onAbort };
  signal.addEventListener('abort', onAbort, { once: true });
  listening.set(signal, begun);
  return begun;
}

/** Settles as `value` does, or rejects with the reason of the signal if that aborts first or has aborted. */
export function unlessAborted<Value>(
  value: Value | PromiseLike<Value>,
  signal: AbortSignal | undefined,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal?.reason);
    if (signal?.aborted) onAbort();
    const release = whenAborted(signal, onAbort);
    Promise.resolve(value).then(resolve, reject).finally(release);
  });
}
