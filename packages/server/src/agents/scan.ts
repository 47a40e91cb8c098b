import {
  type Logger,
  type Message,
  ProtocolError,
  type SecurityStatus,
  type Session,
} from '@parlance/protocol';
import {
  type ContentScanner,
  guard,
  loggable,
  type Scannable,
  type ScannerHost,
  truncateUnits,
} from '@parlance/protocol/internal';

/**
 * Looks at received content before anything else does: messages and requests, tensors among them, whose `text`
 * throws, and the replies, part by part, that pass from agent to agent. Content is blocked if it throws.
 */
export type Scan = (message: Message, context: ScanContext) => Verdict | Promise<Verdict>;

export interface ScanContext {
  readonly session: Session;
  /** `sent` only if the client asked for scan results, in `m2m.v1.json`. */
  readonly direction: 'received' | 'sent';
}

export interface Verdict {
  readonly safe: boolean;
  /** The kind of threat; cut to 128 characters. */
  readonly threatType?: string | undefined;
  /** From 0 to 1. */
  readonly confidence?: number | undefined;
  /**
   * Ends the session with REJECT SECURITY_POLICY, or refuses to send. If false, the content is delivered with the
   * verdict as its `securityStatus`. @default !safe
   */
  readonly block?: boolean | undefined;
}

const MAX_THREAT_TYPE = 128;

/** Holds received content back until it was scanned; messages keep their order. */
export class Scanner implements ContentScanner {
  readonly #scan: Scan;
  readonly #host: ScannerHost;
  readonly #logger: Logger;
  #last: Promise<void> = Promise.resolve();
  /** Messages that were neither delivered nor blocked. */
  #waiting = 0;
  /** Contents that are being scanned. */
  #unsettled = 0;

  constructor(scan: Scan, host: ScannerHost, logger: Logger) {
    this.#scan = scan;
    this.#host = host;
    this.#logger = logger;
  }

  get pending(): Promise<void> | undefined {
    return this.#waiting > 0 ? this.#last : undefined;
  }

  get isIdle(): boolean {
    return this.#unsettled === 0;
  }

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

  takeRequest(message: Scannable, deliver: () => void): void {
    void this.#settle(this.judge(message, 'received'), deliver);
  }

  /** Never rejects: what delivering or blocking throws ends the session. */
  #settle(verdict: Promise<void>, deliver: () => void): Promise<void> {
    this.#unsettled++;
    return verdict.then(
      () => {
        this.#unsettled--;
        guard(this.#host, deliver);
      },
      (error: ProtocolError) => {
        this.#unsettled--;
        guard(this.#host, () => this.#host.block(error.message));
      },
    );
  }

  async judge(message: Scannable, direction: ScanContext['direction']): Promise<void> {
    message.securityStatus = await this.#statusOf(message, direction);
  }

  async #statusOf(message: Message, direction: ScanContext['direction']): Promise<SecurityStatus> {
    let verdict: Verdict;
    try {
      verdict = readVerdict(await this.#scan(message, { session: this.#host.session, direction }));
    } catch (cause) {
      const fields = { event: 'scan.failed', session: this.#host.session.id, err: loggable(cause) };
      this.#logger.error(fields, 'the scan failed, so the content is blocked');
      throw new ProtocolError('forbidden', 'the content could not be scanned', { cause });
    }
    const { safe, threatType, confidence, block = !safe } = verdict;
    if (!block) return { scanned: true, safe, threatType, confidence };
    const fields = {
      event: 'scan.blocked',
      session: this.#host.session.id,
      direction,
      threatType,
      confidence,
    };
    this.#logger.warn(fields, 'content was blocked');
    throw new ProtocolError('forbidden', `content was refused${threatType ? `: ${threatType}` : ''}`);
  }
}

/**
 * Reads each field once, because the application may have given the verdict getters.
 *
 * @throws {TypeError} if it is not a verdict, and what its getters throw.
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
    // Often a quotation; REJECT cannot carry half of a surrogate pair.
    threatType: threatType === undefined ? undefined : truncateUnits(threatType as string, MAX_THREAT_TYPE),
    confidence: confidence as number | undefined,
  };
}
