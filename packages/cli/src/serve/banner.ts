import type { Terminal } from '../base/terminal.js';

/** The addresses of a server. */
export interface Addresses {
  /** Of the session endpoint. */
  readonly url: string;
  readonly page: string | undefined;
  readonly inspector: string | undefined;
  readonly metrics: string | undefined;
  readonly dashboard?: string | undefined;
}

/**
 * The addresses of a server that is ready, for people: one line each.
 *
 * @param token of the admin port: the link to the dashboard has it behind `#`, which browsers send to no server.
 */
export function bannerOf(
  { url, page, inspector, metrics, dashboard }: Addresses,
  { style }: Terminal,
  token?: string,
): string {
  const hash = token === undefined ? '' : `#token=${encodeURIComponent(token)}`;
  const lines = [
    ['Session', url],
    ['Chat page', page],
    ['Inspector', inspector],
    ['Metrics', metrics],
    ['Dashboard', dashboard && `${dashboard}${hash}`],
  ].flatMap(([name = '', address]) =>
    address === undefined ? [] : [`  ${style('strong', name.padEnd(10))} ${style('value', address)}`],
  );
  return `\n${style('good', 'Ready')}\n${lines.join('\n')}\n\n`;
}
