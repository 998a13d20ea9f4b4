# -*- coding: UTF-8 -*-
X = 1
