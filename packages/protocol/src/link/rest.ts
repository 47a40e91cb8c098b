import type { LinkContext } from './context-coding.js';
import type { ReceiveAccount, SendAccount } from './credit.js';
import type { Link } from './link.js';
import type { LastStreams } from './streams.js';

/**
 * The rest of a link while nothing is under way: its counts, the credit of one-way messages, and names and context
 * if there are any. Another link continues from it. Only servers do this, which have many idle sessions.
 */
export class RestedLink {
  /** The streams that the next link begins with. */
  readonly last: LastStreams;
  /** Counted frames received since the session began. */
  readonly received: number;
  readonly framesConfirmed: number;
  readonly #context: LinkContext | undefined;
  /** Frames that may be acknowledged; `undefined` for all. */
  readonly #ceiling: number | undefined;
  readonly #spent: SendAccount | undefined;
  readonly #granted: ReceiveAccount | undefined;
  readonly #pool: number;
  readonly #names: ReadonlyMap<number, string> | undefined;
  readonly #aliases: readonly [aliases: Map<string, number>, next: number] | undefined;

  /** Takes the link off its outbox. Returns `undefined`, and does nothing, while something is under way. */
  static of(link: Link): RestedLink | undefined {
    const { streams, assembler, sendCredit, receiveCredit, outbox } = link.parts;
    const [accounts, , permitted, waiting, unread] = receiveCredit.snapshot();
    const hasInput = streams.isInUse || (assembler.unfinished?.size ?? 0) > 0 || unread > 0;
    const isMoreThanMessages = isOfStreams(accounts) || isOfStreams(sendCredit.snapshot());
    const hasCredit = permitted !== undefined || (waiting?.size ?? 0) > 0 || isMoreThanMessages;
    const [acknowledged] = link.acknowledgement.snapshot();
    const isOwing =
      acknowledged < link.acknowledgement.received || link.framesUnconfirmed > 0 || link.isCreditHeld;
    const hasOutput = outbox.hasBodies || outbox.controlFrames > 0;
    if (hasInput || hasCredit || isOwing || hasOutput) return undefined;
    const rested = new RestedLink(link);
    outbox.detach();
    return rested;
  }

  private constructor(link: Link) {
    const { streams, sendCredit, receiveCredit, context, aliases, outbox } = link.parts;
    const { received, ceiling } = link.acknowledgement;
    const [granted, pool] = receiveCredit.snapshot();
    const { encoder, decoder } = context ?? {};
    const written = outbox.parts.writer.aliases?.snapshot();
    this.last = streams.last;
    this.received = received;
    this.framesConfirmed = link.framesConfirmed;
    this.#context = encoder === undefined && decoder === undefined ? undefined : context;
    this.#ceiling = ceiling === Infinity ? undefined : ceiling;
    this.#spent = sendCredit.snapshot()?.get(0);
    this.#granted = granted?.get(0);
    this.#pool = pool;
    this.#names = aliases?.names.size ? aliases.names : undefined;
    this.#aliases = written?.[0].size ? written : undefined;
  }

  /** Bytes of memory of packed messages that are kept for context coding. */
  get packedBytes(): number {
    return this.#context?.packedBytes ?? 0;
  }

  /** @param link a new one that begins with {@link last}, on the outbox of the former one. */
  wake(link: Link): void {
    const { sendCredit, receiveCredit, aliases, context, outbox } = link.parts;
    const { acknowledgement } = link;
    const { written, writer } = outbox.parts;
    acknowledgement.received = this.received;
    acknowledgement.restore([this.received, 0]);
    if (this.#ceiling !== undefined) acknowledgement.raise(this.#ceiling, 0);
    if (this.#spent !== undefined) sendCredit.restore(new Map([[0, this.#spent]]));
    const granted = this.#granted && new Map([[0, this.#granted]]);
    receiveCredit.restore([granted, this.#pool, undefined, undefined, 0]);
    for (const [alias, name] of this.#names ?? []) aliases?.names.set(alias, name);
    if (this.#aliases !== undefined) writer.aliases?.restore(this.#aliases);
    if (context !== undefined && this.#context !== undefined) {
      context.encoder = this.#context.encoder;
      context.decoder = this.#context.decoder;
    }
    written.count = this.framesConfirmed;
    link.confirm(this.framesConfirmed);
  }
}

/** Credit of a stream other than that of one-way messages. */
function isOfStreams(accounts: ReadonlyMap<number, unknown> | undefined): boolean {
  return accounts !== undefined && accounts.size > (accounts.has(0) ? 1 : 0);
}
