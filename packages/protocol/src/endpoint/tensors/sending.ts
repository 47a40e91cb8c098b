import type { Requester } from '../requests/requester.js';
import { TensorSender, type TensorSenderOptions } from './sender.js';

/** The outbound half of a session, and the endpoint that it belongs to. */
interface Outbound {
  readonly requester: Requester;
  room(streamId: number, below: number): Promise<void>;
}
interface Host extends Pick<TensorSenderOptions, 'core' | 'ends' | 'pump'> {
  readonly session: { send(text: string): Promise<void> };
  handleTransfer?(direction: 'sent' | 'received', error: unknown): void;
}

const senders = new WeakMap<Outbound, TensorSender>();

/** What sends the tensors of one session, made with the first of them. */
export function tensorSenderOf(outbound: Outbound, host: Host): TensorSender {
  let sender = senders.get(outbound);
  if (sender === undefined) {
    sender = new TensorSender({
      core: host.core,
      requester: outbound.requester,
      pump: () => host.pump(),
      written: (streamId) => outbound.room(streamId, 1),
      sendText: (text) => host.session.send(text),
      ends: host.ends,
      onOver: (error) => host.handleTransfer?.('sent', error),
    });
    senders.set(outbound, sender);
  }
  return sender;
}
