// Package payer decides which reservation pays for which machine. The account of now (capacity/join), the bill of the past
// (capacity/bill) and the announcement of nodes that leave (kube/provision) ask it, so that they agree.
//
// A reservation pays for a machine whose labels name it; for one whose pool draws on it; and, where it is open, for one of its type in
// its zone: in that order, and never for more machines than it has instances. What a cloud decided is known of machines that name their
// reservation alone. Of the others as many are paid for by reservations as can be, since an instance of a reservation is paid for whether or
// not a machine is found for it.
package payer
