import { ProtocolError } from '@parlance/protocol';
import type { Emission } from '@parlance/protocol/events';

/** Bytes of the data of all events of one session that are not acknowledged, as JSON. */
export const MAX_PENDING = 256 * 1024;
/** An event has 64 characters of a name, and fewer of an ID. */
const MAX_TEXT = 64;

/** Events of the server in a durable session that its client has not acknowledged, as they are recorded. */
export class Pending {
  readonly #texts = new Map<string, { readonly name: string; readonly text: string }>();
  #size = 0;

  /** @throws {ProtocolError} `over_budget`. */
  add(id: string, { name, data }: Emission): void {
    const text = textOf(data);
    const size = this.#size + Buffer.byteLength(text);
    if (size > MAX_PENDING) {
      const message = `emit: the events that the client has not handled yet have more than ${MAX_PENDING} bytes`;
      throw new ProtocolError('over_budget', message);
    }
    this.#size = size;
    this.#texts.set(id, { name, text });
  }

  delete(id: string): void {
    const text = this.#texts.get(id)?.text;
    if (text === undefined) return;
    this.#size -= Buffer.byteLength(text);
    this.#texts.delete(id);
  }

  /** `undefined` for none. */
  save(): unknown {
    if (this.#texts.size === 0) return undefined;
    return [...this.#texts].map(([id, { name, text }]) => [id, name, text]);
  }

  /** @throws {ProtocolError} `bad_message`. */
  static load(saved: unknown): readonly (Emission & { readonly id: string })[] {
    if (!Array.isArray(saved)) throw malformed();
    return saved.map((each: unknown) => {
      const [id, name, text] = Array.isArray(each) ? (each as readonly unknown[]) : [];
      if (!isName(id) || !isName(name) || typeof text !== 'string') throw malformed();
      return { id, name, data: dataOf(text) };
    });
  }
}

/** Data that is not JSON is an empty text here, as the request that carries it refuses it. */
function textOf(data: unknown): string {
  try {
    return JSON.stringify(data) ?? '';
  } catch {
    return '';
  }
}

function dataOf(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    throw malformed();
  }
}

const isName = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= MAX_TEXT;

const malformed = (): ProtocolError =>
  new ProtocolError('bad_message', 'events: a list of events is expected');
