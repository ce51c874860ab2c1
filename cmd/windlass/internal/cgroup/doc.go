// Package cgroup puts processes into groups that the kernel ends as one, whatever they
// start and however they detach it: control groups, version 2, with cgroup.kill (Linux
// 5.14). On other systems every call returns that there are none.
//
// A held group belongs to the process that made it for as long as that lives. A lock on
// the group's folder marks it as held: the kernel releases it with the process. The
// processes of a group that nobody holds have lost whoever had a right to end them, and
// Sweep ends them.
//
//	<own group of the process>/windlass-<random>         made by Make, held
//	<own group of the process>/windlass-<random>/<name>  made by Child
package cgroup

import "errors"

// ErrUnavailable is returned for every reason why there are no groups here: another
// system, an older kernel, a folder that is not writable.
var ErrUnavailable = errors.New("no control groups")
