import { type BodyToSend, ProtocolError } from '@parlance/protocol';
import type { ServerEndpoint } from '../session/endpoint.js';

/**
 * Queues a one-way message that is coded for several sessions. Does not wait for room.
 *
 * @param onQueued called in the same turn in which it is queued.
 * @returns a promise if it is not queued yet.
 * @throws {ProtocolError} `over_budget` without room; what the core refuses; errors of `code`.
 */
export function enqueue(
  session: ServerEndpoint,
  code: () => BodyToSend | Promise<BodyToSend>,
  onQueued: () => void,
): Promise<void> | undefined {
  const { outbound, scanner } = session;
  const assertRoom = (): void => {
    if (outbound.hasRoom(0)) return;
    throw new ProtocolError('over_budget', 'too much waits for the client already');
  };
  assertRoom();
  const coded = code();
  const statesSecurity = scanner !== undefined && outbound.statesSecurity;
  const queue = (body: BodyToSend): void => {
    session.perform((core) => core.channel.send(body));
    onQueued();
  };
  if (!(coded instanceof Promise) && outbound.order.pending === undefined && !statesSecurity) {
    queue(coded);
    return undefined;
  }
  return outbound.order.push(async () => {
    const body = statesSecurity ? await outbound.withStatus(await coded) : await coded;
    assertRoom();
    queue(body);
    // All members share the content.
  }, 0);
}
