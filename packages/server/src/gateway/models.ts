import { type Message, ProtocolError, type Session } from '@parlance/protocol';
import { GatewayFailure, readRequest } from './failure.js';

/**
 * Models that may be asked for, by name; a name that ends with `*` stands for all that begin like it.
 * A function decides for each session, usually by its `principal`.
 */
export type AllowedModels =
  | readonly string[]
  | ((session: Session) => readonly string[] | Promise<readonly string[]>);

/** Decides on requests by the model that they name. */
export interface ModelPolicy {
  /**
   * The model of a request, once it is found to be allowed; `undefined` where it names none and every
   * model is allowed.
   *
   * The header of an M2M frame is read first, without decompressing anything, so that most refusals cost
   * nothing. It proves nothing about the body behind it, which decides.
   *
   * @throws {GatewayFailure} `model_not_allowed`, `bad_request`.
   */
  admit(request: Message, session: Session): Promise<string | undefined>;
}

/** @param allowed without it every model is allowed. */
export function createModelPolicy(allowed: AllowedModels | undefined): ModelPolicy {
  if (allowed === undefined) return { admit: async (request) => statedModel(request) };
  return {
    async admit(request, session) {
      const names = typeof allowed === 'function' ? await allowed(session) : allowed;
      const stated = headerModel(request);
      if (stated !== undefined) assertAllowed(stated, names);
      const model = bodyModel(request);
      assertAllowed(model, names);
      return model;
    },
  };
}

function assertAllowed(model: string, names: readonly string[]): void {
  const isAllowed = names.some((name) =>
    name.endsWith('*') ? model.startsWith(name.slice(0, -1)) : model === name,
  );
  if (isAllowed) return;
  throw new GatewayFailure('model_not_allowed', `the model ${JSON.stringify(shorten(model))} is not allowed`);
}

/** What a request says its model is, where nobody is refused for it. */
function statedModel(request: Message): string | undefined {
  const stated = headerModel(request);
  if (stated !== undefined) return stated;
  try {
    const model = request.json<{ model?: unknown } | null>()?.model;
    return typeof model === 'string' ? shorten(model) : undefined;
  } catch (error) {
    // An upstream has its own answer to what is no JSON, and its own limits.
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

function headerModel(request: Message): string | undefined {
  const header = readRequest(() => request.header);
  const model = header !== undefined && 'model' in header ? header.model : '';
  return model === '' ? undefined : model;
}

/**
 * The model that a body names. Where it names two, readers differ in which of them counts, and one
 * could be allowed for the other.
 */
function bodyModel(request: Message): string {
  const body = readRequest(() => request.json<{ model?: unknown } | null>());
  const model = body?.model;
  if (typeof model !== 'string') throw new GatewayFailure('bad_request', 'the request names no model');
  if (countTopLevelKey(request.text, 'model') !== 1) {
    throw new GatewayFailure('bad_request', 'the request names its model more than once');
  }
  return model;
}

/**
 * How often the object that `json` is has `key`, however it is written.
 *
 * @param json valid JSON.
 */
export function countTopLevelKey(json: string, key: string): number {
  let count = 0;
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    switch (json[at]) {
      case '{':
      case '[':
        depth++;
        break;
      case '}':
      case ']':
        depth--;
        break;
      case '"': {
        const end = endOfString(json, at);
        if (depth === 1 && isFollowedByColon(json, end) && JSON.parse(json.slice(at, end)) === key) count++;
        at = end - 1;
      }
    }
  }
  return count;
}

/** The index behind the string that begins at `start`. */
function endOfString(json: string, start: number): number {
  for (let end = json.indexOf('"', start + 1); end !== -1; end = json.indexOf('"', end + 1)) {
    let first = end;
    while (json[first - 1] === '\\') first--;
    if ((end - first) % 2 === 0) return end + 1;
  }
  return json.length;
}

function isFollowedByColon(json: string, from: number): boolean {
  let at = from;
  while (json[at] === ' ' || json[at] === '\n' || json[at] === '\r' || json[at] === '\t') at++;
  return json[at] === ':';
}

/** A name that a peer made up does not become a long label or message. */
function shorten(model: string): string {
  return model.slice(0, 128);
}
