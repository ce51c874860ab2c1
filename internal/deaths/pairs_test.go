package deaths

import (
	"fmt"
	"strings"
	"testing"
)

// Of three nodes the one dies that holds one of two tasks, in turn, with nine of the others.
func TestJudge_O02_TwoThatKillTheirNodesInTurnAreFoundTogether(t *testing.T) {
	c := newChronicle(t)
	found := map[string]int{}
	for i := 0; len(found) < 2 && i < 60; i++ {
		lost := []string{[]string{"p", "q"}[i%2]}
		for j := range 9 {
			lost = append(lost, fmt.Sprint("t", (i*11+j*3)%28))
		}
		c.dies("", strings.Join(lost, " "))
		if d := c.deaths[i]; d.Culprit != "" {
			found[d.Culprit] = i + 1
		}
	}
	if found["p"] < 20 || found["p"] > 32 || found["q"] < 20 || found["q"] > 32 || len(found) != 2 {
		t.Errorf("they are found after so many deaths: %v", found)
	}
}

// Chance would explain why a task is there less well if one left out what lists another, which chance
// explains.
func TestJudge_O02_WhoIsThereOnceAnotherIsLeftOutIsNotToBlame(t *testing.T) {
	c := newChronicle(t)
	for i, with := range "baxbaabaxaabaxaabaa" {
		c.die("", fmt.Sprintf("%c c%d d%d e%d f%d", with, i, i, i, i), "")
	}
}
