/** The condition under which this repository uses its sources, which the packed packages do not contain. */
const SOURCE = '@parlance/source';

const withoutSource = (target) =>
  typeof target !== 'object' || target === null
    ? target
    : Object.fromEntries(
        Object.entries(target)
          .filter(([condition]) => condition !== SOURCE)
          .map(([condition, inner]) => [condition, withoutSource(inner)]),
      );

module.exports = {
  hooks: {
    beforePacking: (manifest) => ({
      ...manifest,
      ...(manifest.exports && { exports: withoutSource(manifest.exports) }),
      ...(manifest.imports && { imports: withoutSource(manifest.imports) }),
    }),
  },
};
