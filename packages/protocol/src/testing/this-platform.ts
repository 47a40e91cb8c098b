/** The platform of this process, for test code outside the package: `#platform` does not resolve there. */
export { platform } from '#platform';
