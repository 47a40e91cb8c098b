import type { Session } from '@parlance/protocol';
import { GatewayFailure } from './failure.js';
import type { GatewayBody } from './request-body.js';
import { type FoundKey, readText } from './scan.js';

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
  admit(request: GatewayBody, session: Session): Promise<string | undefined>;
}

/** @param allowed without it every model is allowed. */
export function createModelPolicy(allowed: AllowedModels | undefined): ModelPolicy {
  if (allowed === undefined) return { admit: async (request) => statedModel(request) };
  return {
    async admit(request, session) {
      const names = typeof allowed === 'function' ? await allowed(session) : allowed;
      const stated = request.headerModel;
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

/** The model that a request states. Nothing is refused for it: the upstream may take more than the scan. */
function statedModel(request: GatewayBody): string | undefined {
  const stated = nameIn(request.scan().found.get('model')) ?? request.headerModel;
  return stated === undefined ? undefined : shorten(stated);
}

/**
 * The model that a body names. Where it names two, readers differ in which of them counts, and one
 * could be allowed for the other. There are readers to whom keys that differ only in case are the same.
 */
function bodyModel(request: GatewayBody): string {
  const { found } = request.scanStrictly();
  const key = found.get('model');
  if (key !== undefined && key.count > 1) {
    throw new GatewayFailure('bad_request', 'the request names its model more than once');
  }
  if (key?.isExact === false) {
    throw new GatewayFailure('bad_request', 'the request spells the key "model" in another way');
  }
  const model = nameIn(key);
  if (model === undefined) throw new GatewayFailure('bad_request', 'the request names no model');
  return model;
}

/** Bytes of the longest name that is read, quotes and escapes included. */
const MAX_NAME_SIZE = 1024;

function nameIn(key: FoundKey | undefined): string | undefined {
  return key === undefined || key.value.length > MAX_NAME_SIZE ? undefined : readText(key.value);
}

/** A name that a peer made up does not become a long label or message. */
function shorten(model: string): string {
  return model.slice(0, 128);
}
