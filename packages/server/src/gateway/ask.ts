import { ProtocolError } from '@parlance/protocol';

/** How long a function of the application may take, in milliseconds. */
export const ANSWER_MS = 10_000;

/** @throws {ProtocolError} `timeout`. @throws {unknown} what the function threw; the reason of `signal`. */
export async function answerOf<Value>(value: Value | Promise<Value>, signal: AbortSignal): Promise<Value> {
  if (!(value instanceof Object && 'then' in value)) return value;
  let forget = (): void => {};
  const ended = new Promise<never>((_, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) return stop();
    const late = () => reject(new ProtocolError('timeout', `no answer within ${ANSWER_MS} ms`));
    const timer = setTimeout(late, ANSWER_MS);
    signal.addEventListener('abort', stop);
    forget = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    };
  });
  return await Promise.race([value, ended]).finally(forget);
}
