import type { ProtocolError } from '../../base/errors.js';
import { MAX_ASSEMBLED_SIZE } from '../../base/limits.js';
import type { SessionMemory } from '../../base/memory.js';
import { plainBody } from '../../codec/body.js';
import type { Clock } from '../../platform/clock.js';
import type { SessionCore } from '../../session/types.js';
import type { Mailbox } from '../messages/mailbox.js';
import type { ContentScanner } from '../ports.js';
import { TensorReceiver, type TransferMode } from './receiver.js';

/** The endpoint that gets the tensors. */
interface Host {
  readonly core: SessionCore;
  readonly mailbox: Mailbox;
  readonly scanner: ContentScanner | undefined;
  readonly memory: SessionMemory;
  readonly options: {
    readonly clock: Clock;
    readonly maxAssembledSize?: number | undefined;
    readonly transfers?: TransferMode | undefined;
  };
  pump(): void;
  handleTransfer?(direction: 'sent' | 'received', error: unknown): void;
}

/** Creates the receiver of an endpoint's tensors. */
export function createTensorReceiver(
  host: Host,
  refuse: (streamId: number, error: ProtocolError) => void,
): TensorReceiver {
  const { core, mailbox, scanner } = host;
  const { limits } = core;
  const { clock, maxAssembledSize = MAX_ASSEMBLED_SIZE, transfers = 'assemble' } = host.options;
  return new TensorReceiver({
    mode: transfers,
    limits,
    maxAssembledSize,
    memory: () => host.memory,
    now: () => clock.now(),
    admit(message, deliver) {
      if (scanner === undefined) deliver();
      else scanner.takeRequest(message, deliver);
    },
    deliver: (message) => mailbox.push(message),
    consume(streamId, charge) {
      if (core.channel.consume(streamId, charge)) host.pump();
    },
    accept(streamId) {
      core.channel.respond(streamId, plainBody(new Uint8Array(0)));
      host.pump();
    },
    refuse,
    onOver: (error) => host.handleTransfer?.('received', error),
  });
}
