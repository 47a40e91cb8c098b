/** Values of labels: clients and upstreams cannot make their number grow. */

/** Models that have a label of their own. */
const MAX_MODELS = 20;
const MODEL = /^[\w.:/@-]{1,64}$/;
/** The statuses that an operator wants to tell apart. */
const STATUSES: ReadonlySet<number> = new Set([
  200, 400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504,
]);

/** The labels of models: those that the upstream has answered for, up to a number. */
export class ModelLabels {
  readonly #known = new Set<string>();

  /** @param isServed the upstream has answered a request for the model, so it is not an invention of a client. */
  of(model: string | undefined, isServed: boolean): string {
    if (model === undefined) return 'none';
    if (this.#known.has(model)) return model;
    if (!isServed || this.#known.size >= MAX_MODELS || !MODEL.test(model)) return 'other';
    this.#known.add(model);
    return model;
  }
}

/** A common status as it is, another one as its class (`4xx`), and `failed` without a response. */
export function statusLabel(status: number | undefined): string {
  if (status === undefined) return 'failed';
  if (STATUSES.has(status)) return String(status);
  const first = Math.trunc(status / 100);
  return first >= 1 && first <= 5 ? `${first}xx` : 'other';
}
