// Package bill divides what is paid for GPUs among those who held them: GPU-time and money by queue, namespace, user and
// experiment, with the time that they waited, what they lost to preemption, what they held and did not use, and what
// nobody held.
//
// It has no store of its own. A Book is told the history that the scheduler's decision log has (package record), step by step,
// so a bill can be made again at any time and does not depend on a process that keeps running. Prices come from a Tariff, which
// package join makes of Reservations and Pools as they are now.
//
// Everything is counted in whole numbers: thousandths of a GPU times milliseconds, and millionths of a currency. What the lines of a
// Report say adds up to what is paid, exactly. Package cli prints it (berth cost, docs/cost.md).
package bill
