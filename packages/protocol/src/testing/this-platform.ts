/** Exports the platform of this process to test code outside the package, where `#platform` does not resolve. */
export { platform } from '#platform';
