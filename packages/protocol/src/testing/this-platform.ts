/** The platform of this process, for test code outside the package: `#platform` does not resolve there. */
export { cryptoSuite } from '#crypto';
export { platform } from '#platform';
