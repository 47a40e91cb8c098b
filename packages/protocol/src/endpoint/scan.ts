import { ProtocolError } from '../base/errors.js';
import { truncateUnits } from '../base/text.js';
import type { SecurityStatus } from '../codec/body.js';
import { type Crashable, guard } from './guard.js';
import { loggable } from './loggable.js';
import type { Message } from './messages/message.js';
import type { Logger } from './ports.js';
import type { Session } from './session.js';

/**
 * Looks at content before anybody else does, and says what it found. Sees messages and requests, tensors among
 * them, whose `text` throws, and at a server the replies, part by part, that it passes on to others. What it
 * throws blocks.
 */
export type Scan = (message: Message, context: ScanContext) => Verdict | Promise<Verdict>;

export interface ScanContext {
  readonly session: Session;
  /** What is sent is scanned only where the peer has asked to be told, in `m2m.v1.json`. */
  readonly direction: 'received' | 'sent';
}

export interface Verdict {
  readonly safe: boolean;
  /** What kind of threat it is; at most 128 characters are kept. */
  readonly threatType?: string | undefined;
  /** From 0 to 1. */
  readonly confidence?: number | undefined;
  /**
   * Ends the session with REJECT SECURITY_POLICY, or refuses to send. Without it the content goes on with
   * the verdict as its `securityStatus`. @default what is not safe
   */
  readonly block?: boolean | undefined;
}

const MAX_THREAT_TYPE = 128;

/** A message that is told what was found. */
export interface Scannable extends Message {
  securityStatus: SecurityStatus | undefined;
}

/** Holds what arrives back until it was looked at; messages keep their order. */
export class Scanner {
  readonly #scan: Scan;
  readonly #session: Session & Crashable;
  readonly #logger: Logger;
  readonly #block: (error: ProtocolError) => void;
  #last: Promise<void> = Promise.resolve();
  /** Messages that were neither delivered nor blocked. */
  #waiting = 0;

  /** @param block is told what goes no further. */
  constructor(
    scan: Scan,
    session: Session & Crashable,
    logger: Logger,
    block: (error: ProtocolError) => void,
  ) {
    this.#block = block;
    this.#scan = scan;
    this.#session = session;
    this.#logger = logger;
  }

  /** Settles when no message waits any more; `undefined` if none does. */
  get pending(): Promise<void> | undefined {
    return this.#waiting > 0 ? this.#last : undefined;
  }

  /** Calls `deliver` in the order of the messages. */
  takeMessage(message: Scannable, deliver: () => void): void {
    this.#waiting++;
    this.#last = this.takeBehind(this.#last, () => message, deliver).finally(() => {
      this.#waiting--;
    });
  }

  /**
   * Calls `deliver` when `previous` has resolved.
   *
   * @param read called at once; what it throws blocks.
   * @returns resolves when the message was delivered or blocked.
   */
  takeBehind(previous: Promise<void>, read: () => Scannable, deliver: () => void): Promise<void> {
    const verdict = (async () => this.judge(read(), 'received'))();
    verdict.catch(() => {});
    return this.#settle(
      previous.then(() => verdict),
      deliver,
    );
  }

  /** Requests wait for nothing but their own verdict. */
  takeRequest(message: Scannable, deliver: () => void): void {
    void this.#settle(this.judge(message, 'received'), deliver);
  }

  /** Never rejects: what delivering or blocking throws ends the session. */
  #settle(verdict: Promise<void>, deliver: () => void): Promise<void> {
    return verdict.then(
      () => guard(this.#session, deliver),
      (error: ProtocolError) => guard(this.#session, () => this.#block(error)),
    );
  }

  /**
   * Marks a message with the verdict.
   *
   * @throws {ProtocolError} `forbidden` where it is to go no further, or could not be scanned.
   */
  async judge(message: Scannable, direction: ScanContext['direction']): Promise<void> {
    message.securityStatus = await this.#statusOf(message, direction);
  }

  async #statusOf(message: Message, direction: ScanContext['direction']): Promise<SecurityStatus> {
    let verdict: Verdict;
    try {
      verdict = readVerdict(await this.#scan(message, { session: this.#session, direction }));
    } catch (cause) {
      const fields = { event: 'scan.failed', session: this.#session.id, err: loggable(cause) };
      this.#logger.error(fields, 'scan failed, which blocks');
      throw new ProtocolError('forbidden', 'the content could not be scanned', { cause });
    }
    const { safe, threatType, confidence, block = !safe } = verdict;
    if (!block) return { scanned: true, safe, threatType, confidence };
    const fields = { event: 'scan.blocked', session: this.#session.id, direction, threatType, confidence };
    this.#logger.warn(fields, 'content was blocked');
    throw new ProtocolError('forbidden', `content was refused${threatType ? `: ${threatType}` : ''}`);
  }
}

/**
 * Reads each field once: a verdict comes from the application, which may have given it getters.
 *
 * @throws {TypeError} if it is none; and what its getters throw.
 */
function readVerdict(verdict: unknown): Verdict {
  if (typeof verdict !== 'object' || verdict === null) throw new TypeError('scan returned no verdict');
  const { safe, threatType, confidence, block } = verdict as Partial<Record<keyof Verdict, unknown>>;
  const isOptional = (value: unknown, type: string) => value === undefined || typeof value === type;
  if (typeof safe !== 'boolean') throw new TypeError('scan returned a verdict without a boolean "safe"');
  if (!isOptional(block, 'boolean')) throw new TypeError('the "block" of a verdict is a boolean');
  if (!isOptional(threatType, 'string')) throw new TypeError('the "threatType" of a verdict is a string');
  if (confidence !== undefined && !Number.isFinite(confidence))
    throw new TypeError('the "confidence" of a verdict is a number');
  return {
    safe,
    block: block as boolean | undefined,
    // It is often a quotation, and goes into a REJECT, which has no form for half of a surrogate pair.
    threatType: threatType === undefined ? undefined : truncateUnits(threatType as string, MAX_THREAT_TYPE),
    confidence: confidence as number | undefined,
  };
}
