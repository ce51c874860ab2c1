// Package keys is the only place that builds or parses a key of the store.
//
// Everything of a namespace lives below /<namespace>:
//
//	layout                       the version of all this
//	nodes/<node>/info            the node, with its session
//	nodes/<node>/return          its promise to be back, while it is away
//	nodes/<node>/commands/<id>   a command to it, with its session
//	tasks/<task>                 the task's spec, until done or deleted
//	tasks/<task>/props           its properties
//	tasks/<task>/owner           its owner, with the owner's session
//	tasks/<task>/handover        the node it was released for, with the session of the last owner,
//	                             or the last owner itself, permanent, if that is to be back
//	tasks/<task>/failed          the mark of its failure, for the tasks that wait for it
//	tasks/<task>/requeue         its next submission, for when its run has ended
//	claims/<task>                when it was claimed, with the owner's session
//	history/<task>               its latest events, permanent
//	state/<task>                 its state, permanent
//	progress/<task>              the progress that its handler saved
//	tree/<job>/<job>             a job as it was queued
//	commands/<task>              a command to it
//	elections/<election>/<candidate>   a candidate in line, with its session
//
// Names are validated before they become part of a key, and a key is parsed by its
// depth, so nothing done to task "a" can affect "ab", "a|b" or "a-1". Unknown keys
// parse to Unknown and are left alone.
package keys
