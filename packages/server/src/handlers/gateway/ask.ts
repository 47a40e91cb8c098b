import { ProtocolError } from '@parlance/protocol';
import { unlessAborted } from '@parlance/protocol/internal';

/** How long a function of the application may take, in milliseconds. */
export const ANSWER_MS = 10_000;

/** @throws {ProtocolError} `timeout`. @throws {unknown} what the function threw; the reason of `signal`. */
export async function answerOf<Value>(value: Value | Promise<Value>, signal: AbortSignal): Promise<Value> {
  if (!(value instanceof Object && 'then' in value)) return value;
  let timer: NodeJS.Timeout | undefined;
  const ended = new Promise<never>((_, reject) => {
    const late = () => reject(new ProtocolError('timeout', `no answer within ${ANSWER_MS} ms`));
    timer = setTimeout(late, ANSWER_MS);
  });
  // In contrast to the methods of what was returned, `await` is not the application's.
  const answer = (async () => await value)();
  return await unlessAborted(Promise.race([answer, ended]), signal).finally(() => clearTimeout(timer));
}
