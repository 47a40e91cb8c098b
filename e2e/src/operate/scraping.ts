import { request as httpRequest } from 'node:http';
import parsePrometheus from 'parse-prometheus-text-format';
import { expect } from 'vitest';

/** Reads what servers report over HTTP. */

interface Answer {
  readonly status: number | undefined;
  readonly type: string | undefined;
  readonly text: string;
}

/** One request to a port of this machine. */
export const get = (port: number, path: string, method = 'GET') =>
  new Promise<Answer>((resolve, reject) =>
    httpRequest({ port, path, method, agent: false })
      .on('response', (response) => {
        let text = '';
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () =>
          resolve({ status: response.statusCode, type: response.headers['content-type'], text }),
        );
      })
      .on('error', reject)
      .end(),
  );

export interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly metrics: readonly {
    readonly value?: string;
    readonly count?: string;
    readonly sum?: string;
    readonly labels?: Record<string, string>;
  }[];
}

/** The last metrics of each page. */
const seen = new Map<string, string>();

/** Metrics that were collected since the last call, which a server does not do too often. */
export async function textOfMetrics(page: string): Promise<string> {
  const { port, pathname } = new URL(page);
  const before = seen.get(page) ?? '';
  let text = before;
  // Those of the process differ each time.
  while (text === before) {
    const answer = await get(Number(port), pathname);
    expect(answer.status).toBe(200);
    text = answer.text;
  }
  seen.set(page, text);
  return text;
}

/** The metrics that a server exposes, by name. */
export async function scrape(port: number, path = '/metrics'): Promise<Map<string, Metric>> {
  const text = await textOfMetrics(`http://127.0.0.1:${port}${path}`);
  return new Map((parsePrometheus(text) as Metric[]).map((metric) => [metric.name, metric]));
}

/** The value of a metric with these labels; 0 without one. @param name without `parlance_`. */
export function sampleOf(
  metrics: Map<string, Metric>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const found = metrics
    .get(`parlance_${name}`)
    ?.metrics.find((sample) =>
      Object.entries(labels).every(([key, value]) => sample.labels?.[key] === value),
    );
  return Number(found?.value ?? 0);
}
