/** Writes files that any server can serve, instead of a server. */
export default { output: 'export' };
