import { parts } from '#parts';
import { loadSentences } from '#sentences';
import { Algorithm } from '../base/constants.js';
import { type ProtocolError, toProtocolError } from '../base/errors.js';
import { type BodyForm, formOf } from '../codec/algorithms.js';
import type { BodyCodec } from '../codec/body.js';
import type { UsableCodecs } from '../codec/coder.js';
import { isDurable, type Negotiated } from '../control/agreement.js';
import type { LaterCodec } from '../control/messages.js';
import type { Clock } from '../platform/clock.js';
import type { SessionCore } from '../session/types.js';
import { loadedEncodings } from '../tokenizer/loaded.js';
import { type CodecLoader, codecLoader } from './codec-loader.js';
import type { EndpointOptions } from './endpoint-options.js';
import { type Crashable, guard, guardLater } from './guard.js';
import { loggable } from './loggable.js';

/** Codecs that were reported as unavailable; one line for each is enough. */
const reported = new Set<BodyForm>();

export interface LoadingHost extends Crashable {
  readonly core: SessionCore;
  readonly options: EndpointOptions;
  readonly negotiated: Negotiated;
  /** All codecs are loaded before the first session begins, as a server does it. */
  readonly isPreloaded: boolean;
  /** The codecs that may be used now have changed. */
  handleCodecs(): void;
  abort(error: ProtocolError): void;
  pump(): void;
}

/** Milliseconds after ACCEPT for which a session that has begun leaves the connection to its first messages, if no reply arrives. */
const LOAD_DELAY_MS = 1_000;

/** Loads the codecs of one session: before it begins, or, in a page, when they are needed or after a while. */
export class CodecLoading {
  readonly #host: LoadingHost;
  #hasBegun = false;
  /** Codecs are not loaded yet, because something else may come first. */
  #isDelayed = false;
  /** Codecs whose code could not be loaded. */
  #failed: Set<BodyForm> | undefined;

  constructor(host: LoadingHost) {
    this.#host = host;
  }

  get #loader(): CodecLoader {
    return this.#host.options.codecs ?? codecLoader;
  }
  get #clock(): Clock {
    return this.#host.options.clock;
  }

  /**
   * Calls `start` when the session may begin. If it has to wait, the core holds received frames meanwhile, and a
   * failure ends the session. Only the first call counts: the session may be resumed while its codecs are loaded.
   */
  begin(start: () => void): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    const host = this.#host;
    const { core, negotiated, options } = host;
    const isLoaded = this.#missing.length === 0;
    if (host.isPreloaded && isLoaded) return start();
    options.onAccepted?.();
    const { hasLink } = core.channel;
    // Without NONE, nothing can be sent before; without the link, frames do not tell what they need.
    const isEarly =
      this.#loader.isLazy &&
      (hasLink || isDurable(negotiated)) &&
      negotiated.algorithms.includes(Algorithm.NONE);
    if (isEarly && hasLink) return this.#startEarly(start);
    core.holdFrames();
    const code = hasLink ? undefined : options.channelOf?.(negotiated);
    const loading = Promise.all([code, isEarly || this.#loadAll()]).then(
      ([loaded]) => {
        if (core.state === 'closed') return;
        if (loaded !== undefined && !core.openChannel(loaded)) return host.pump();
        isEarly ? this.#startEarly(start) : start();
      },
      (error: unknown) => {
        if (core.state === 'closed') return;
        host.abort(toProtocolError(error, 'internal', 'loading the codecs of the session failed'));
      },
    );
    guardLater(host, loading);
  }

  #startEarly(start: () => void): void {
    start();
    // An earlier session may have loaded them after its HELLO, which this session has in common with it.
    this.#announce(this.#agreed.filter((codec) => this.#isReady(codec)));
    const { codecsAfter } = this.#host.options;
    if (codecsAfter !== undefined) {
      const begin = () => guard(this.#host, () => this.#loadBehind());
      void Promise.resolve(codecsAfter).then(begin, begin);
      return;
    }
    this.#isDelayed = true;
    this.#clock.after(LOAD_DELAY_MS, () => this.#loadIfDelayed());
  }

  /**
   * A reply has begun to arrive, or has ended without parts: the rest comes in full size until the codecs are loaded. The page
   * shows this part first.
   */
  hurry(): void {
    if (this.#isDelayed) this.#clock.after(0, () => this.#loadIfDelayed());
  }

  #loadIfDelayed(): void {
    if (!this.#isDelayed) return;
    this.#isDelayed = false;
    guard(this.#host, () => this.#loadBehind());
  }

  /** @throws {ProtocolError} if a codec cannot be loaded; in a page only if that was the last one. */
  async #loadAll(): Promise<void> {
    if (!this.#loader.isLazy) {
      await Promise.all(this.#agreed.map((codec) => this.load(codec)));
      return;
    }
    await Promise.all(this.#agreed.map((codec) => this.#tryToLoad(codec)));
    const [first, ...others] = this.#host.negotiated.algorithms as readonly [LaterCodec, ...LaterCodec[]];
    if (![first, ...others].some((codec) => this.#isReady(codec))) await this.load(first);
  }

  /** Loads what a held frame needs, then releases it. */
  handleNeeded(codec: BodyCodec): void {
    const host = this.#host;
    guardLater(
      host,
      this.#tryToLoad(formOf(codec)).then(() => this.#release()),
    );
  }

  /** Loads the code of streams, for which frames are held. Without it, the session cannot continue. */
  handleStreams(): void {
    const host = this.#host;
    const fail = (error: unknown) =>
      host.abort(toProtocolError(error, 'codec_not_loaded', 'the code of requests could not be loaded'));
    guardLater(
      host,
      parts.requests.load().then(() => this.#release(), fail),
    );
  }

  #release(): void {
    const host = this.#host;
    host.core.releaseFrames(this.#clock.now());
    host.pump();
  }

  /** Loads what `algorithm` needs; `undefined` if it is there, or was not agreed on. */
  request(algorithm: LaterCodec): Promise<void> | undefined {
    if (!this.#agreed.includes(algorithm) || this.#isReady(algorithm)) return undefined;
    return this.load(algorithm).then(() => this.#announce([algorithm]));
  }

  /** The codecs that may be used now: agreed, loaded here, and loaded by the peer. */
  get usable(): UsableCodecs {
    const { core, negotiated } = this.#host;
    const { encoding } = negotiated;
    const isUsable = (codec: LaterCodec) => !core.awaitedCodecs.has(codec) && this.#isReady(codec);
    const algorithms = agreedOnes(negotiated, isUsable);
    return {
      // A peer that has loaded none of them holds bodies until it has.
      algorithms:
        algorithms.length > 0 ? algorithms : agreedOnes(negotiated, (codec) => this.#isReady(codec)),
      hasContext: this.#hasContext && isUsable('CONTEXT'),
      encoding: encoding === null ? undefined : loadedEncodings.get(encoding),
    };
  }

  async load(form: BodyForm): Promise<void> {
    await this.#loader.load(form, this.#host.negotiated.encoding);
  }

  #isReady(form: BodyForm): boolean {
    return this.#loader.isReady(form, this.#host.negotiated.encoding);
  }

  get #hasContext(): boolean {
    return this.#host.core.channel.contextUse !== undefined;
  }

  get #agreed(): readonly LaterCodec[] {
    const { algorithms } = this.#host.negotiated;
    return this.#hasContext ? [...algorithms, 'CONTEXT'] : algorithms;
  }

  get #missing(): readonly LaterCodec[] {
    return this.#agreed.filter((codec) => !this.#isReady(codec));
  }

  #loadBehind(): void {
    const host = this.#host;
    if (host.core.state === 'closed') return;
    // Most pages ask; a page that does not still could after its files have been replaced by newer ones.
    parts.requests.load().catch(() => {});
    if (host.options.onRequest !== undefined) parts.answers.load().catch(() => {});
    void loadSentences();
    for (const codec of this.#missing) guardLater(host, this.#tryToLoad(codec));
  }

  /** Leaves a codec out that cannot be loaded, and reports it once. */
  async #tryToLoad(form: BodyForm): Promise<void> {
    const { core, options } = this.#host;
    if (core.state === 'closed' || this.#failed?.has(form)) return;
    try {
      await this.load(form);
    } catch (error) {
      this.#failed ??= new Set();
      this.#failed.add(form);
      if (reported.has(form)) return;
      reported.add(form);
      const { message } = toProtocolError(error, 'codec_not_loaded', String(error));
      const fields = { event: 'codec.unavailable', codec: form, err: loggable(error) };
      options.logger?.warn(fields, `${form} is left out: ${message}`);
      return;
    }
    if (form !== 'AVP') this.#announce([form]);
  }

  #announce(loaded: readonly LaterCodec[]): void {
    const host = this.#host;
    host.core.announceReady(loaded, this.#clock.now());
    host.handleCodecs();
    host.pump();
  }
}

/** The agreed algorithms of a kind: the list itself if that is all of them. */
function agreedOnes(
  { algorithms }: Negotiated,
  isOne: (algorithm: Algorithm) => boolean,
): readonly Algorithm[] {
  return algorithms.every(isOne) ? algorithms : algorithms.filter(isOne);
}
