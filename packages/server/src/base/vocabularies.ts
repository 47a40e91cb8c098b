import {
  Algorithm,
  type EncodingName,
  getEncoding,
  type HelloPayload,
  isEncodingAvailable,
  type Logger,
  loadEncoding,
} from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';

/** The share of one core that the process may have used of late if vocabularies are to be loaded in the background. */
const MAX_USE = 0.5;

/**
 * The vocabularies that a server offers. The first session that may agree on one waits for it. A vocabulary that no session
 * has needed yet is loaded in the background, one at a time, while the process does little else.
 */
export class Vocabularies {
  readonly #names: readonly EncodingName[];
  readonly #logger: Logger;
  readonly #use: () => number;
  readonly #loads = new Map<EncodingName, Promise<boolean>>();
  /** Those that were loaded in the background, or should have been. */
  readonly #tried = new Set<EncodingName>();

  /** @param use the share of one core that the process has used since the last call. */
  constructor(names: readonly EncodingName[], logger: Logger, use: () => number = useOfCore()) {
    this.#names = names;
    this.#logger = logger;
    this.#use = use;
  }

  /**
   * Loads all of them, or only finds out whether their packages are installed.
   *
   * @throws {ProtocolError} `vocabulary_unavailable`; `vocabulary_mismatch` if it loads them.
   */
  async prepare(isEager: boolean): Promise<void> {
    await Promise.all(
      this.#names.map(async (name) => {
        if (isEager || !(await isEncodingAvailable(name))) await loadEncoding(name);
      }),
    );
  }

  /**
   * Loads the one that a session with this HELLO is likely to agree on, and resolves with whether it is there; `undefined` if
   * nothing has to be loaded. A failure is logged, and the next call tries again.
   */
  need(
    hello: Pick<HelloPayload, 'algorithms' | 'encodings' | 'preferredEncoding'>,
  ): Promise<boolean> | undefined {
    if (!hello.algorithms.includes(Algorithm.TOKEN_NATIVE)) return undefined;
    const name = [hello.preferredEncoding, ...hello.encodings].find((each) => this.#has(each));
    return name == null || getEncoding(name) !== undefined ? undefined : this.#load(name);
  }

  /** Loads one that is missing, unless the process was busy since the last call. */
  loadIfIdle(): void {
    const isBusy = this.#use() > MAX_USE;
    const name = this.#names.find((each) => getEncoding(each) === undefined && !this.#tried.has(each));
    if (isBusy || name === undefined) return;
    this.#tried.add(name);
    void this.#load(name);
  }

  #has(name: EncodingName | null): boolean {
    return name !== null && this.#names.includes(name);
  }

  #load(name: EncodingName): Promise<boolean> {
    const load =
      this.#loads.get(name) ??
      loadEncoding(name)
        .then(
          () => true,
          (error: unknown) => {
            const fields = { event: 'server.failed', err: loggable(error) };
            this.#logger.error(fields, `loading the vocabulary ${name} failed`);
            return false;
          },
        )
        .finally(() => this.#loads.delete(name));
    this.#loads.set(name, load);
    return load;
  }
}

function useOfCore(): () => number {
  let at = performance.now();
  let used = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(used);
    const share = (user + system) / 1000 / (performance.now() - at);
    at = performance.now();
    used = process.cpuUsage();
    return share;
  };
}
