/** The code for a client of a durable session, which is loaded when a server agrees on one. */

export { DurableClientChannel as Channel } from './client-channel.js';
