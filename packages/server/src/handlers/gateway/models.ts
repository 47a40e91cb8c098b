import type { RequestContext, Session } from '@parlance/protocol';
import { answerOf } from './ask.js';
import { GatewayFailure } from './failure.js';
import type { GatewayBody } from './request-body.js';
import { type FoundKey, readText } from './scan.js';

/**
 * Names of allowed models; a name that ends with `*` allows every model with that prefix. A function
 * decides for each session, usually by its `principal`.
 */
export type AllowedModels =
  | readonly string[]
  | ((session: Session) => readonly string[] | Promise<readonly string[]>);

type Asker = Pick<RequestContext, 'session' | 'signal'>;

/** Admits requests by the model that they name. */
export interface ModelPolicy {
  /**
   * Returns the model of a request if it is allowed, or `undefined` if every model is allowed and the
   * request names none.
   *
   * The header of an M2M frame is checked first, so that most refusals need no decompression. It is not
   * authoritative: the body decides.
   *
   * @throws {GatewayFailure} `model_not_allowed`, or `bad_request` if the model cannot be determined.
   */
  admit(request: GatewayBody, context: Asker): Promise<string | undefined>;
  /** Resolves to whether a model is allowed; to `undefined` if every model is. */
  allowed(context: Asker): Promise<((model: string) => boolean) | undefined>;
}

/** @param allowed @default every model */
export function createModelPolicy(allowed: AllowedModels | undefined): ModelPolicy {
  if (allowed === undefined) {
    return { admit: async (request) => statedModel(request), allowed: async () => undefined };
  }
  const namesFor = async ({ session, signal }: Asker) =>
    typeof allowed === 'function' ? await answerOf(allowed(session), signal) : allowed;
  return {
    async admit(request, context) {
      const names = await namesFor(context);
      const stated = request.headerModel;
      if (stated !== undefined) assertAllowed(stated, names);
      const model = bodyModel(request);
      assertAllowed(model, names);
      return model;
    },
    async allowed(context) {
      const names = await namesFor(context);
      return (model) => isAllowed(model, names);
    },
  };
}

function isAllowed(model: string, names: readonly string[]): boolean {
  return names.some((name) => (name.endsWith('*') ? model.startsWith(name.slice(0, -1)) : model === name));
}

function assertAllowed(model: string, names: readonly string[]): void {
  if (!isAllowed(model, names)) throw notAllowed(model);
}

export function notAllowed(model: string): GatewayFailure {
  const shown = JSON.stringify(shorten(model));
  return new GatewayFailure('model_not_allowed', `the model ${shown} is not allowed`);
}

/** The model that a request states. Never refuses a request, as the upstream may accept more than the scan does. */
function statedModel(request: GatewayBody): string | undefined {
  const stated = nameIn(request.scan().found.get('model')) ?? request.headerModel;
  return stated === undefined ? undefined : shorten(stated);
}

/**
 * The model that a body names. If it names two, JSON parsers differ in which one counts, so a client could get
 * one admitted and use the other. Some parsers also ignore the case of keys.
 */
function bodyModel(request: GatewayBody): string {
  const { found } = request.scanStrictly();
  const key = found.get('model');
  if (key !== undefined && key.count > 1) {
    throw new GatewayFailure('bad_request', 'the request names its model more than once');
  }
  if (key?.isExact === false) {
    throw new GatewayFailure(
      'bad_request',
      'the key "model" must be written in lower case and without escapes',
    );
  }
  const model = nameIn(key);
  if (model === undefined) throw new GatewayFailure('bad_request', 'the request names no model');
  return model;
}

/** Longest name in bytes, including quotes and escapes. */
const MAX_NAME_SIZE = 1024;

function nameIn(key: FoundKey | undefined): string | undefined {
  return key === undefined || key.value.length > MAX_NAME_SIZE ? undefined : readText(key.value);
}

/** Bounds a name that a client chose, for labels and messages. */
function shorten(model: string): string {
  return model.slice(0, 128);
}
