// Package kubescheduler parses the message with which kube-scheduler refuses a pod, of all versions since 1.30: on how many
// nodes which filter said no, and what preemption would have done. It does not judge whether that is right.
package kubescheduler
