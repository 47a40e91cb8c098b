import { type EncodingName, Extension } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { FrameKind, frameKind } from '../base/frame-kind.js';
import { resolveLimits } from '../base/limits.js';
import { agreeOnContext, type ContextParameters } from '../codec/context/parameters.js';
import { decodeControl, decodeControlJson } from '../control/envelope.js';
import type { ControlMessage, UnknownMessage } from '../control/messages.js';
import { decodeLinkFrame, type LinkFrame, LinkKind } from '../link/frame.js';
import { DirectionFollower } from './direction.js';
import type { ExplainOptions, Explanation } from './explanation.js';
import { explainFrame } from './frame.js';

/** Which way a frame goes, as seen from the end that is observed. */
export type Direction = 'sent' | 'received';

/**
 * Explains the frames of a session as they pass, in both directions and over all its connections. It
 * knows what a single frame does not state: the negotiated vocabulary, which bodies are unfinished, and
 * the earlier messages that later ones are coded against.
 */
export interface SessionExplainer {
  /** Explains the next frame of a direction. The caller must not change its bytes afterwards. */
  explain(direction: Direction, frame: Uint8Array | string): Explanation;
}

/**
 * @param options as for {@link explainFrame}; `encoding`, `continues` and `decoded` come from the session.
 * @throws {ProtocolError} `invalid_option` if a limit is invalid.
 */
export function createSessionExplainer(
  options: Omit<ExplainOptions, 'encoding' | 'continues' | 'decoded'> = {},
): SessionExplainer {
  const { explain } = followSession(options);
  return { explain: (direction, frame) => explain(direction, frame).explanation };
}

/** The change of the session by a control message. */
export type SessionStep =
  /** HELLO: the connection tries to begin a session, or to resume one. */
  | { readonly kind: 'offered' }
  | { readonly kind: 'established'; readonly sessionId: string; readonly windowMs: number }
  | {
      readonly kind: 'resumed';
      readonly sessionId: string;
      readonly windowMs: number;
      /** Frames of the server that the client had. */
      readonly received: number;
      /** Frames of the client that the server had. */
      readonly acknowledged: number;
      /** Frames that were seen before and are written again, in both directions. */
      readonly again: number;
      /** The page was loaded again: the link begins again. */
      readonly isRebuilt: boolean;
    }
  /** CLOSE or REJECT: the session does not outlive the connection. */
  | { readonly kind: 'ending' };

export interface FollowedFrame {
  readonly explanation: Explanation;
  readonly step: SessionStep | undefined;
}

/** Like {@link createSessionExplainer}, and says what becomes of the session. */
export function followSession(options: Omit<ExplainOptions, 'encoding' | 'continues' | 'decoded'>): {
  explain(direction: Direction, frame: Uint8Array | string): FollowedFrame;
} {
  const limits = resolveLimits(options.limits);
  const follow = (parameters?: ContextParameters): Record<Direction, DirectionFollower> => ({
    sent: new DirectionFollower(limits, parameters),
    received: new DirectionFollower(limits, parameters),
  });
  let directions = follow();
  /** The context extension as HELLO offered it. */
  let offeredContext: string | undefined;
  let encoding: EncodingName | undefined;
  /** Frames that the client had received when it sent HELLO. */
  let clientReceived = 0;

  const learn = (direction: Direction, message: ControlMessage | UnknownMessage): SessionStep | undefined => {
    if (message.type === 'HELLO') {
      clientReceived = message.payload.resume?.received ?? 0;
      offeredContext = message.payload.extensions[Extension.CONTEXT];
      return { kind: 'offered' };
    }
    if (message.type === 'CLOSE' || message.type === 'REJECT') return { kind: 'ending' };
    if (message.type !== 'ACCEPT') return undefined;
    encoding = message.payload.encoding ?? undefined;
    const sessionId = message.sessionId ?? '';
    const { resume, extensions } = message.payload;
    const windowMs = resume?.windowMs ?? 0;
    if (resume?.recovered !== true) {
      directions = follow(contextParameters(offeredContext, extensions[Extension.CONTEXT]));
      return { kind: 'established', sessionId, windowMs };
    }
    const counts = { received: clientReceived, acknowledged: resume.received };
    const isRebuilt = resume.rebuilt !== undefined;
    let again = 0;
    if (isRebuilt) directions = follow(contextParameters(offeredContext, extensions[Extension.CONTEXT]));
    else {
      again += directions[direction].rewind(clientReceived);
      again += directions[other(direction)].rewind(resume.received);
    }
    return { kind: 'resumed', sessionId, windowMs, ...counts, again, isRebuilt };
  };

  return {
    explain(direction, data) {
      const link = linkFrameOf(data);
      const { isReplayed, ...context } = (link && directions[direction].next(link)) ?? {};
      const explanation: Explanation = {
        ...explainFrame(data, { ...options, encoding, ...context }),
        isReplayed,
      };
      if (link?.kind === LinkKind.ACK) directions[other(direction)].confirm(link.streamId);
      const step =
        explanation.kind === 'control' && explanation.error === undefined
          ? learn(
              direction,
              typeof data === 'string' ? decodeControlJson(data, limits) : decodeControl(data, limits),
            )
          : undefined;
      return { explanation, step };
    },
  };
}

function contextParameters(
  offered: string | undefined,
  accepted: string | undefined,
): ContextParameters | undefined {
  if (offered === undefined || accepted === undefined) return undefined;
  return unlessRefused(() => agreeOnContext(offered, accepted));
}

function other(direction: Direction): Direction {
  return direction === 'sent' ? 'received' : 'sent';
}

function linkFrameOf(data: Uint8Array | string): LinkFrame | undefined {
  if (typeof data === 'string') return undefined;
  return unlessRefused(() => (frameKind(data) === FrameKind.LINK ? decodeLinkFrame(data) : undefined));
}

function unlessRefused<T>(decode: () => T): T | undefined {
  try {
    return decode();
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
