import { GatewayFailure } from './failure.js';

/** The endpoints of the API that the gateway serves. */

/** The operations on stored files that clients may use; see the option `files`. */
export type FilesPolicy = 'byId' | 'all' | false;

/** One request that may be forwarded. */
export interface EndpointRequest {
  /** Names the endpoint for usage: its path without IDs. */
  readonly name: string;
  readonly method: string;
  /** The path behind the base URL, with its query. */
  readonly path: string;
  /** How the body names the model: in JSON, or in JSON or a form; `undefined` if there is no model. */
  readonly model: 'json' | 'form' | undefined;
  /** The answer lists models. */
  readonly listsModels: boolean;
  /** The model that the path names. */
  readonly namedModel: string | undefined;
  readonly hasBody: boolean;
  /** The answer may be other than text. */
  readonly isBinary: boolean;
}

/** The endings of paths whose requests have a body that names a model. */
const WITH_MODEL: Readonly<Record<string, 'json' | 'form'>> = {
  '/chat/completions': 'json',
  '/completions': 'json',
  '/responses': 'json',
  '/embeddings': 'json',
  '/moderations': 'json',
  '/images/generations': 'json',
  '/images/edits': 'form',
  '/images/variations': 'form',
  '/audio/speech': 'json',
  '/audio/transcriptions': 'form',
  '/audio/translations': 'form',
};

/** The paths served, for messages. */
const SERVED = [...Object.keys(WITH_MODEL), '/models', '/files'].join(', ');
const MODELS = /\/models(?:\/([^/]+))?$/;
const FILES = /\/files(?:\/([^/]+)(\/content)?)?$/;
/** Parameters of lists. */
const LIST_PARAMETERS: readonly string[] = ['after', 'limit', 'order', 'purpose'];

/** Chat completions, for requests without an HTTP head. */
export const CHAT_COMPLETIONS = withModel('/chat/completions', 'json');

function withModel(name: string, model: 'json' | 'form'): EndpointRequest {
  const none = { listsModels: false, namedModel: undefined };
  const isBinary = name === '/audio/speech';
  return { name, method: 'POST', path: name, model, hasBody: true, isBinary, ...none };
}

/** Whether the gateway has an endpoint for this path. Anything before `/v1/` is left to others. */
export function isServedPath(target: string, files: FilesPolicy): boolean {
  const path = pathOf(target);
  if (!path.startsWith('/v1/')) return false;
  return endingOf(path) !== undefined || MODELS.test(path) || (files !== false && FILES.test(path));
}

/**
 * Finds the endpoint by the end of the path; what is before it is ignored.
 *
 * @throws {GatewayFailure} `unknown_path`, `method_not_allowed`.
 */
export function endpointOf(method: string, target: string, files: FilesPolicy): EndpointRequest {
  const path = pathOf(target);
  const ending = endingOf(path);
  if (ending !== undefined) {
    assertMethod(ending, method, ['POST']);
    return withModel(ending, WITH_MODEL[ending] as 'json' | 'form');
  }
  const [isOfModels, model] = MODELS.exec(path) ?? [];
  if (isOfModels !== undefined) {
    assertMethod('/models', method, ['GET']);
    const namedModel = model === undefined ? undefined : decodeModel(model);
    return {
      name: '/models',
      method,
      path: namedModel === undefined ? '/models' : `/models/${encodeURIComponent(namedModel)}`,
      model: undefined,
      listsModels: namedModel === undefined,
      namedModel,
      hasBody: false,
      isBinary: false,
    };
  }
  const [isOfFiles, file, content = ''] = FILES.exec(path) ?? [];
  if (isOfFiles === undefined || files === false) throw unknownPath();
  return fileRequest(method, target, file, content, files);
}

function fileRequest(
  method: string,
  target: string,
  file: string | undefined,
  content: string,
  files: FilesPolicy,
): EndpointRequest {
  const isBinary = content !== '';
  const rest = { method, model: undefined, listsModels: false, namedModel: undefined, isBinary };
  if (file === undefined) {
    assertMethod('/files', method, files === 'all' ? ['POST', 'GET'] : ['POST']);
    const query = method === 'GET' ? listQuery(target) : '';
    return { ...rest, name: '/files', path: `/files${query}`, hasBody: method === 'POST' };
  }
  if (!/^[\w-]{1,128}$/.test(file)) throw unknownPath();
  assertMethod('/files', method, content === '' ? ['GET', 'DELETE'] : ['GET']);
  return { ...rest, name: `/files${content}`, path: `/files/${file}${content}`, hasBody: false };
}

function pathOf(target: string): string {
  return target.split('?', 1)[0] as string;
}

function endingOf(path: string): string | undefined {
  return Object.keys(WITH_MODEL).find((ending) => path.endsWith(ending));
}

/** The name of a model, which may have slashes. Anything that an upstream could take for another path is unknown. */
function decodeModel(segment: string): string {
  let name: string;
  try {
    name = decodeURIComponent(segment);
  } catch {
    throw unknownPath();
  }
  const segments = name.split('/');
  const isPlain = segments.every((each) => /^[\w.:@+~-]{1,128}$/.test(each) && !/^\.+$/.test(each));
  if (isPlain && segments.length <= 4) return name;
  throw unknownPath();
}

function listQuery(target: string): string {
  const given = new URLSearchParams(target.slice(pathOf(target).length));
  const passed = new URLSearchParams();
  for (const name of LIST_PARAMETERS) {
    const value = given.get(name);
    if (value !== null) passed.set(name, value);
  }
  return passed.size === 0 ? '' : `?${passed}`;
}

function assertMethod(endpoint: string, method: string, methods: readonly string[]): void {
  if (methods.includes(method)) return;
  throw new GatewayFailure(
    'method_not_allowed',
    `${endpoint} requires ${methods.join(' or ')}, not ${method}`,
  );
}

function unknownPath(): GatewayFailure {
  return new GatewayFailure('unknown_path', `unknown path; supported endpoints: ${SERVED}`);
}
