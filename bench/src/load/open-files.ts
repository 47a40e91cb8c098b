interface Report {
  readonly userLimits: { readonly open_files: { readonly soft: number | 'unlimited' } };
}

/** Open files that a process needs besides its connections. */
const RESERVE = 64;

/**
 * Connections that one process may have at a time. Node has raised the soft limit to the hard one when
 * it started.
 */
export function maxConnections(): number {
  const { soft } = (process.report.getReport() as unknown as Report).userLimits.open_files;
  return soft === 'unlimited' ? Infinity : Math.max(1, soft - RESERVE);
}
