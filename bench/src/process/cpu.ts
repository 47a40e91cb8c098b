/** Microseconds of CPU that all threads of this process have used, in user and system mode. */
export function cpuTime(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
