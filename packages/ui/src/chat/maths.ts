import temml from 'temml';

/** Formulas as MathML, which browsers show by themselves. Loaded with the first formula. */

/** Of macros, which a formula may bring along. */
const MAX_EXPANSIONS = 500;

/** @returns what has to be sanitized; `undefined` if it is not valid TeX. */
export function mathsOf(tex: string, displayMode: boolean): string | undefined {
  try {
    const html = temml.renderToString(tex, {
      displayMode,
      throwOnError: true,
      trust: false,
      maxExpand: MAX_EXPANSIONS,
    });
    // The policy of the page has no room for styles of elements: the browser would complain when it parses them.
    return html.replace(/ style="[^"]*"/g, '');
  } catch {
    return undefined;
  }
}
