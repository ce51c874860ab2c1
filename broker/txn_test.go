package broker

import (
	"errors"
	"strings"
	"testing"
)

func TestTxn_WhatNoBrokerAcceptsIsRefusedBeforeItIsSent(t *testing.T) {
	many := make([]Cond, TxnOpsMax+1)
	for i := range many {
		many[i] = Exists("/a")
	}
	half := make([]byte, ValueBytesMax)
	for name, c := range map[string]struct {
		txn  Txn
		want error
	}{
		"fine":                   {Txn{If: []Cond{Exists("/a")}, Then: []Op{Put("/b", half), Put("/c", half), DeleteTree("/d/")}, Else: []Op{Read("/a")}}, nil},
		"too many conditions":    {Txn{If: many}, ErrTooLarge},
		"too large a value":      {Txn{Then: []Op{Put("/a", append(half, 'x'))}}, ErrTooLarge},
		"too large together":     {Txn{Then: []Op{Put("/a", half), Put("/b", half), Put("/c", half)}}, ErrTooLarge},
		"written twice":          {Txn{Then: []Op{Put("/a", nil), Delete("/a")}}, ErrInvalid},
		"written below a tree":   {Txn{Then: []Op{DeleteTree("/a/"), Put("/a/b", nil)}}, ErrInvalid},
		"writes in else":         {Txn{Else: []Op{Put("/a", nil)}}, ErrInvalid},
		"an unknown operation":   {Txn{Then: []Op{{Key: "/a"}}}, ErrInvalid},
		"an unknown condition":   {Txn{If: []Cond{{Key: "/a"}}}, ErrInvalid},
		"a tree without a slash": {Txn{Then: []Op{DeleteTree("/a")}}, ErrInvalid},
	} {
		if err := c.txn.Validate(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestKeys_AreSlashPathsOfReadableSegments(t *testing.T) {
	for _, good := range []string{"/a", "/a/b", "/a b/ä|c", "/" + strings.Repeat("x", KeyBytesMax-1)} {
		if err := CheckKey(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "a", "/", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a\x00", "/a\x85", "/\xff", "/" + strings.Repeat("x", KeyBytesMax)} {
		if CheckKey(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestError_ShowsItsKindItsCauseAndWhetherItMayHaveBeenApplied(t *testing.T) {
	cause := errors.New("connection reset")
	err := error(&Error{Op: "commit", Key: "/a", Kind: ErrUnavailable, Cause: cause, Maybe: true})
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, cause) || !MaybeApplied(err) || !Temporary(err) {
		t.Errorf("%v does not match what it is", err)
	}
	if text := err.Error(); text != "commit /a: broker unavailable: connection reset (the outcome is unknown)" {
		t.Errorf("text %q", text)
	}
	if MaybeApplied(NewError("commit", "", ErrTooLarge, nil)) || Temporary(ErrPermission) {
		t.Error("a refusal counts as unknown or temporary")
	}
}
