import {
  BodyCodec,
  type BodyToSend,
  CloseReason,
  createSession,
  LinkFlag,
  LinkKind,
  resolveLimits,
  resolveTimers,
  Subprotocol,
} from '@parlance/protocol';
import { resolveCapabilities, systemClock } from '@parlance/protocol/internal';
import { FrameSocket, maskedFrame, Opcode } from '../load/frame-socket.js';
import type { RelayName } from './relays.js';

/** One end of a relayed pair. */
export interface Agent {
  send(count: number): void;
  /** Sends the protocol's own frames, such as acknowledgements. */
  tick(): void;
  close(): void;
}

interface AgentOptions {
  readonly port: number;
  /** Before the name in the token. @default nothing */
  readonly prefix?: string | undefined;
  readonly name: string;
  /** The name of the receiver; the bare relay derives it from the sender's own name. */
  readonly to: string;
  readonly payload: Uint8Array;
  readonly onMessage: (size: number) => void;
}

export function openAgent(system: RelayName, options: AgentOptions): Promise<Agent> {
  return system === 'ws' ? openSocket(options) : openSession(options);
}

function openSocket({ port, name, payload, onMessage }: AgentOptions): Promise<Agent> {
  const frame = maskedFrame(Opcode.BINARY, payload);
  return new Promise((resolve) => {
    const socket = new FrameSocket(
      { port, path: `/${name}`, subprotocol: undefined },
      {
        onOpen: () => resolve(agent),
        onFrame: (_opcode, bytes) => onMessage(bytes.length),
        onBatch() {},
        onClose() {},
      },
    );
    const agent: Agent = {
      send(count) {
        socket.cork();
        for (let i = 0; i < count; i++) socket.write(frame);
        socket.uncork();
      },
      tick() {},
      close: () => socket.destroy(),
    };
  });
}

/** A plain, addressed message on stream 0, in one frame. */
const WHOLE_MESSAGE = [0x10 | LinkKind.MESSAGE, 0, BodyCodec.PLAIN | LinkFlag.ADDRESSED] as const;

const limits = resolveLimits({ messagesPerMinute: Infinity, bytesPerSecond: Infinity });
const timers = resolveTimers();
const capabilities = resolveCapabilities(
  { algorithms: ['NONE'], encodings: [], extensions: { context: false } },
  limits,
);

/**
 * Uses the protocol core without the promises of the client API, which would make the agents the bottleneck.
 */
function openSession({ port, prefix = '', name, to, payload, onMessage }: AgentOptions): Promise<Agent> {
  const core = createSession({
    role: 'client',
    subprotocol: Subprotocol.BINARY,
    capabilities,
    limits,
    timers,
    token: `${prefix}${name}`,
    timeOrigin: systemClock.timeOrigin,
  });
  const body: BodyToSend = {
    codec: BodyCodec.PLAIN,
    bytes: payload,
    originalLength: payload.length,
    secret: false,
    metadata: undefined,
    address: to,
  };
  /** Whole messages are identical, so they are masked once, like those of the bare relay. */
  let message: { readonly length: number; readonly frame: Uint8Array } | undefined;
  const masked = (frame: Uint8Array): Uint8Array => {
    const isWhole =
      frame[0] === WHOLE_MESSAGE[0] && frame[1] === WHOLE_MESSAGE[1] && frame[2] === WHOLE_MESSAGE[2];
    if (!isWhole) return maskedFrame(Opcode.BINARY, frame);
    if (message?.length !== frame.length)
      message = { length: frame.length, frame: maskedFrame(Opcode.BINARY, frame) };
    return message.frame;
  };
  return new Promise((resolve, reject) => {
    const socket = new FrameSocket(
      { port, path: '/session', subprotocol: Subprotocol.BINARY },
      {
        onOpen() {
          core.handleConnected(systemClock.now());
          transmit();
        },
        onFrame(_opcode, frame) {
          core.handleMessage(frame, systemClock.now());
          takeEvents();
        },
        onBatch: () => transmit(),
        onClose: (error) => reject(error ?? new Error('the relay closed')),
      },
    );
    const takeEvents = () => {
      for (let event = core.pollEvent(); event !== undefined; event = core.pollEvent()) {
        if (event.type === 'message') {
          core.channel.consume(0, event.body.charge);
          onMessage(event.body.bytes.length);
        } else if (event.type === 'state' && event.state === 'established') resolve(agent);
        else if (event.type === 'ended' && event.error !== undefined) throw event.error;
      }
    };
    const transmit = () => {
      socket.cork();
      for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit())
        socket.write(masked(frame as Uint8Array));
      socket.uncork();
    };
    const agent: Agent = {
      send(count) {
        for (let i = 0; i < count; i++) core.channel.send(body);
        transmit();
      },
      tick() {
        const now = systemClock.now();
        if (now >= core.nextTimeout()) core.handleTimeout(now);
        takeEvents();
        transmit();
      },
      close() {
        core.close(CloseReason.CLIENT_SHUTDOWN, '', systemClock.now());
        transmit();
      },
    };
  });
}
