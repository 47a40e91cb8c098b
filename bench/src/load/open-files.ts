interface Report {
  readonly userLimits: { readonly open_files: { readonly soft: number | 'unlimited' } };
}

/** Open files that a process needs in addition to its connections. */
const RESERVE = 64;

/**
 * The most connections that one process can have open. Node raised the soft limit to the hard limit when it
 * started.
 */
export function maxConnections(): number {
  const { soft } = (process.report.getReport() as unknown as Report).userLimits.open_files;
  return soft === 'unlimited' ? Infinity : Math.max(1, soft - RESERVE);
}
