export { CLOSE_CODES, CloseCode, isRetryableCloseCode } from './close-codes.js';
