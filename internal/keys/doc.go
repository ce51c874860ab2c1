// Package keys is the only place that builds or parses a key of the store.
//
// Everything of a namespace lives below /<namespace>:
//
//	layout                       the version of all this
//	nodes/<node>/info            the node, with its session
//	nodes/<node>/commands/<id>   a command to it, with its session
//	tasks/<task>                 the task's spec, until done or deleted
//	tasks/<task>/props           its properties
//	tasks/<task>/owner           who runs it, with the owner's session
//	tasks/<task>/handover        for whom it was released, with that owner's session
//	tasks/<task>/failed          what its failure is for those that wait for it
//	tasks/<task>/requeue         what it becomes once its run has ended
//	claims/<task>                when it was claimed, with the owner's session
//	history/<task>               what happened to it, bounded, permanent
//	state/<task>                 its state, permanent
//	progress/<task>              what its handler saved of its progress
//	tree/<job>/<job>             a job as it was queued
//	commands/<task>              a command to it
//	elections/<election>/<candidate>   a candidate in line, with its session
//
// Names are validated before they become part of a key, and a key is parsed by its
// depth, so nothing done to task "a" can affect "ab", "a|b" or "a-1". Unknown keys
// parse to Unknown and are left alone.
package keys
