import { ProtocolError } from '@parlance/protocol';
import { withResolvers } from '@parlance/protocol/internal';

/** Time to read what has arrived, in milliseconds. */
const GRACE_MS = 20;

/** @throws {ProtocolError} `timeout`. */
export async function within<Value>(promise: Promise<Value>, what: string, ms: number): Promise<Value> {
  const { promise: late, reject } = withResolvers<never>();
  const expire = () => reject(new ProtocolError('timeout', `${what} took more than ${ms} ms`));
  // In a process that was busy for so long, the answer may wait to be read.
  let timer = setTimeout(() => {
    timer = setTimeout(expire, GRACE_MS);
  }, ms);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
