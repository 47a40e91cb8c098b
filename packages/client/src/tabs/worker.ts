import { type Clock, ProtocolError } from '@parlance/protocol/client';
import { type HostPipe, portPipe, readyPipe } from './pipe.js';

/** Milliseconds that the script of the worker has to load. */
const READY_MS = 10_000;

/**
 * Reaches the worker of this origin, which the browser starts if it does not run.
 *
 * @param url the script; the one of this package if `undefined`.
 * @throws {ProtocolError} `connection_failed` if the worker does not start; `unsupported` if one of another version
 * runs.
 */
export async function attachToWorker(url: URL | undefined, clock: Pick<Clock, 'after'>): Promise<HostPipe> {
  const worker = start(url);
  const pipe = portPipe(worker.port);
  let cancel = (): void => {};
  const failed = new Promise<never>((_resolve, reject) => {
    const fail = (why: string) => reject(new ProtocolError('connection_failed', `the shared worker ${why}`));
    worker.addEventListener('error', () => fail('cannot be loaded'));
    cancel = clock.after(READY_MS, () => fail(`did not start within ${READY_MS} ms`));
  });
  try {
    return await Promise.race([readyPipe(pipe), failed]);
  } catch (error) {
    pipe.close();
    throw error;
  } finally {
    cancel();
  }
}

function start(url: URL | undefined): SharedWorker {
  try {
    // Chromium's option keeps the worker for some seconds after its last page, so that it can close its session.
    if (url !== undefined)
      return new SharedWorker(url, { type: 'module', extendedLifetime: true } as WorkerOptions);
    // Bundlers look for exactly this expression. The file has no imports, so that they can copy it.
    return new SharedWorker(new URL('../web/shared-worker.js', import.meta.url), {
      type: 'module',
      extendedLifetime: true,
    } as WorkerOptions);
  } catch (cause) {
    throw new ProtocolError('connection_failed', 'the shared worker is forbidden to this page', { cause });
  }
}
