"""Errors in Chinese, as shells, the C library and scripts print them: `is_certain_in_chinese`, `counts_in_chinese`."""

from __future__ import annotations

import re

_CERTAIN = (
    "段错误", "核心已转储", "吐核", "已杀死", "已放弃", "总线错误", "非法指令", "浮点数例外", "未找到命令",
    "找不到命令", "没有那个文件或目录", "没有那个设备", "权限不够", "拒绝连接", "连接被拒绝", "连接超时",
    "设备上没有空间", "设备或资源忙", "无法分配内存", "打开的文件过多", "输入/输出错误", "参数列表过长",
    "可执行文件格式错误", "未预期的记号", "被信号", "异常退出", "意外退出", "内存溢出", "显存不足",
    "内存不足",
)  # fmt: skip
"""What bash, glibc and others print with a Chinese locale, and what scripts print of a failure only."""
_WORD = re.compile(
    "错误|失败|异常|崩溃|超时|报错|出错|无法(?:打开|分配|连接|加载|找到|创建|访问|读取|写入|初始化|解析|识别)"
)
_DENIED = re.compile(
    r"(?:[无没未不零免止]|没有|未发生|未出现|避免|防止|处理|捕获|忽略|如果|若|当|可能|统计|记录|检测|注册|设置|(?<![\d.])0\s*[个次条项]?)\s*\w{0,2}$"
)
_NAUGHT = re.compile(
    r"^(?:率|率?[数量]|次数|个数|总数|数目|码|重试|处理|日志|信息|检测|恢复|时间|设置|阈值|值)?(?:为|是)?\s*[:：=]?\s*"
    r"(?:0+(?:\.0+)?%?(?![\w.])|无|没有|None)"
)
_MATTER = re.compile(r"^(?:率|数|处理|日志|检测|恢复|时间|设置|阈值|重试|时(?!出)|后|的?话|码\s*[:：=]?\s*0(?![\d.]))")
NEEDLES = (*_CERTAIN, "错误", "失败", "异常", "崩溃", "超时", "报错", "出错", "无法")
"""Every line that these functions take for an error holds one."""


def is_certain_in_chinese(text: str) -> bool:
    """Tell whether only a failure prints this."""
    return any(words in text for words in _CERTAIN)


def counts_in_chinese(text: str) -> bool:
    """Tell whether a word of the line names an error, and nothing around it takes it back."""
    for word in _WORD.finditer(text):
        before, after = text[max(0, word.start() - 12) : word.start()], text[word.end() : word.end() + 16]
        if not (_DENIED.search(before) or _NAUGHT.match(after) or _MATTER.match(after)):
            return True
    return False
