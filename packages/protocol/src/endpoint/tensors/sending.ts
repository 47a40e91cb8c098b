import { NONE, recipientOf } from '../call-options.js';
import type { Requester } from '../requests/requester.js';
import { assertSendTensorOptions, type SendTensorOptions } from './send-options.js';
import { TensorSender, type TensorSenderOptions } from './sender.js';
import type { TensorInput } from './tensor.js';

/** The session of an application, the outbound half of one session, and the endpoint that it belongs to. */
interface SessionHost {
  readonly reachesAgents: boolean;
  readonly outbound: {
    perform(
      send: (outbound: Outbound, host: Host) => Promise<void>,
      options: { readonly what: string; readonly signal?: AbortSignal | undefined },
    ): Promise<void>;
  };
}
interface Outbound {
  readonly requester: Requester;
  room(streamId: number, below: number): Promise<void>;
}
interface Host extends Pick<TensorSenderOptions, 'core' | 'ends' | 'pump'> {
  readonly session: { send(text: string): Promise<void> };
  handleTransfer?(direction: 'sent' | 'received', error: unknown): void;
}

/** See `Session.sendTensor`. */
export async function sendTensor(
  session: SessionHost,
  tensor: TensorInput,
  options: SendTensorOptions,
): Promise<void> {
  if (options !== NONE) assertSendTensorOptions(options);
  const { signal, to } = options;
  signal?.throwIfAborted();
  const address = recipientOf(session, to);
  const send = (outbound: Outbound, host: Host) => senderOf(outbound, host).send(tensor, address, options);
  await session.outbound.perform(send, { what: 'tensors', signal });
}

const senders = new WeakMap<Outbound, TensorSender>();

/** The sender of the tensors of one session, created with the first of them. */
function senderOf(outbound: Outbound, host: Host): TensorSender {
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
