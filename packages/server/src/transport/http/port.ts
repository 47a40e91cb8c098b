import { ProtocolError } from '@parlance/protocol';

/**
 * A port that a server opens at most once. Opening it takes time, and the server may be asked to open it again or to
 * close meanwhile: there is one promise of it, and what opens too late is closed at once.
 */
export class Port<Opened> {
  readonly #already: string;
  readonly #shut: (opened: Opened) => Promise<void>;
  #opening: Promise<Opened> | undefined;
  #isClosed = false;
  /** While the port is open. */
  opened: Opened | undefined;

  /**
   * @param already why it is not opened twice, for an error.
   * @param shut closes it, and resolves when that is done.
   */
  constructor(already: string, shut: (opened: Opened) => Promise<void>) {
    this.#already = already;
    this.#shut = shut;
  }

  /**
   * If `open` or `load` fails, the port may be opened again.
   *
   * @param load what the server needs before it is ready; the port is open meanwhile, and says that it is not.
   * @throws {ProtocolError} `invalid_argument` if it is open, being opened or closed; what the two functions throw.
   */
  async open(open: () => Promise<Opened>, load: () => Promise<void> = async () => {}): Promise<Opened> {
    this.#assertOpen();
    if (this.#opening !== undefined) throw new ProtocolError('invalid_argument', this.#already);
    this.#opening = this.#run(open, load);
    try {
      return await this.#opening;
    } catch (error) {
      this.#opening = undefined;
      throw error;
    }
  }

  /** Resolves when it is closed, and will not be open any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#leave();
    await this.#opening?.catch(() => {});
  }

  async #run(open: () => Promise<Opened>, load: () => Promise<void>): Promise<Opened> {
    const opened = await open();
    this.opened = opened;
    try {
      this.#assertOpen();
      await load();
      this.#assertOpen();
    } catch (error) {
      await this.#leave();
      throw error;
    }
    return opened;
  }

  async #leave(): Promise<void> {
    const { opened } = this;
    this.opened = undefined;
    if (opened !== undefined) await this.#shut(opened);
  }

  #assertOpen(): void {
    if (this.#isClosed) throw closedError();
  }
}

export function closedError(): ProtocolError {
  return new ProtocolError('invalid_argument', 'the server was closed; create another one');
}
