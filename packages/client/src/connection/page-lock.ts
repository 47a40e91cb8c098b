/** The part of the Web Locks API that is used. */
export interface Locks {
  request(
    name: string,
    options: { readonly signal: AbortSignal },
    callback: () => Promise<void>,
  ): Promise<unknown>;
  query(): Promise<unknown>;
}

/** The locks that the pages of an origin share; `undefined` in other runtimes and in pages without a secure context. */
export function pageLocks(): Locks | undefined {
  const { document, navigator } = globalThis as { document?: unknown; navigator?: { locks?: Locks } };
  return document === undefined ? undefined : navigator?.locks;
}

/**
 * Takes the lock `name`. Resolves to a function that releases it, or to `undefined` if it was not free within `waitMs`.
 */
export function takeLock(locks: Locks, name: string, waitMs: number): Promise<(() => void) | undefined> {
  return new Promise((resolve) => {
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), waitMs);
    const isTaken = () => {
      clearTimeout(timer);
      return new Promise<void>((release) => resolve(release));
    };
    const isRefused = () => {
      clearTimeout(timer);
      resolve(undefined);
    };
    try {
      locks.request(name, { signal: controller.signal }, isTaken).catch(isRefused);
    } catch {
      isRefused();
    }
  });
}
