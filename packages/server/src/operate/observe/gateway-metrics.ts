import type { TokenUsage, UpstreamAttempt } from '../../session/observer.js';
import { ModelLabels, statusLabel } from './labels.js';
import type { MetricKit } from './metric-kit.js';

/** Seconds until an upstream answers: from a cached answer to a long prompt. */
const FIRST_BYTE_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Metrics of the requests of a server's gateways to their upstreams. */
export class GatewayMetrics {
  readonly #models = new ModelLabels();
  readonly #requests;
  readonly #retries;
  readonly #firstByte;
  readonly #tokens;

  constructor(kit: MetricKit) {
    this.#requests = kit.counter(
      'upstream_requests',
      'Requests to upstreams, retries included, by HTTP status and model; models without an answer are `other`.',
      ['status', 'model'],
    );
    this.#retries = kit.counter('upstream_retries', 'Requests to upstreams that repeated another one.');
    this.#firstByte = kit.histogram(
      'upstream_first_byte_seconds',
      'Time from a request to an upstream to the head of its response.',
      FIRST_BYTE_BUCKETS,
    );
    this.#tokens = kit.counter('upstream_tokens', 'Tokens that upstreams have reported, by model.', [
      'direction',
      'model',
    ]);
  }

  handleUpstream({ model, status, isRetry, seconds }: UpstreamAttempt): void {
    const isServed = status !== undefined && status >= 200 && status < 300;
    this.#requests.inc({ status: statusLabel(status), model: this.#models.of(model, isServed) });
    if (isRetry) this.#retries.inc();
    if (status !== undefined) this.#firstByte.observe(seconds);
  }

  handleTokens(model: string | undefined, tokens: TokenUsage | undefined): void {
    if (tokens === undefined) return;
    const label = this.#models.of(model, true);
    this.#tokens.inc({ direction: 'prompt', model: label }, tokens.promptTokens);
    this.#tokens.inc({ direction: 'completion', model: label }, tokens.completionTokens);
  }
}
