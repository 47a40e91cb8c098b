/** The platform that `#platform` names in this process, for test code outside the package. */
export { platform } from '#platform';
